"""Probe: which pool suits a backbone and a data set, found on frozen features in minutes."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import covpool
from covpool.data.batches import TestBatches
from covpool.data.images import Images
from covpool.data.sets import Splits, open_data
from covpool.models.backbone import Backbone
from covpool.models.network import Network
from covpool.train.maps import DTYPES, Maps, compute_maps
from covpool.train.pooled import cached, file_digest
from covpool.train.probe_choice import Tried, choose_lr
from covpool.train.probe_fit import Head, fit, logits, representation_size, training_pass
from covpool.train.probe_run import Run, pack
from covpool.train.probe_settings import Probe, check_probe, chosen_pools

IMAGES = 64  # at once through the backbone
# What a result does not depend on, besides the pool and the seed, which are told beside it.
NOT_IN_KEY = ("pools", "seeds", "keep", "cache", "weights")

Progress = Callable[[str, int, int], None]  # what is done, how many of how many
Measure = Callable[[Callable[[], None], torch.device], dict[str, float | None]]


@dataclass(frozen=True)
class Prepared:
    """All that the trainings share."""

    probe: Probe
    heads: dict[str, Head]
    train: Maps
    test: Maps
    key: str


def no_progress(what: str, done: int, of: int) -> None:
    """For who does not want to be told."""


def no_costs(call: Callable[[], None], device: torch.device) -> dict[str, float | None]:
    """For who does not want to wait for measurements."""
    return {}


def probe(
    settings: Probe,
    *,
    device: torch.device | str = "cpu",
    known: Iterable[Run] = (),
    measure: Measure = no_costs,
    on_progress: Progress = no_progress,
) -> Iterator[Run]:
    """Train every pool with every seed on the feature maps of one frozen backbone.

    For each pool the learning rate is chosen first, with one seed, on a held-out part of the training pictures; then it
    is trained on all of them. The test pictures are seen once, by the trained head.

    Args:
        settings: of `read_probe`.
        device: where the backbone and the pools are.
        known: earlier results; those made with the same settings are given out again instead of made again.
        measure: tells the costs of forward and backward of pool and classifier, such as {"ms_per_batch": ...}.
        on_progress: is told what is going on.

    Yields:
        a result per pool and seed, as soon as it is there. A pool that fails gives one that says why.
    """
    check_probe(settings)
    device = torch.device(device)
    splits = open_data(settings.data)
    backbone = _backbone(settings).to(device)
    heads = _heads(settings, backbone, len(splits.train.classes))
    key = _key(settings, splits, device)
    found = {(run.pool, run.seed): run for run in known if run.key == key and not run.failed}
    total, done = len(heads) * len(settings.seeds), 0
    prepared: Prepared | None = None
    for label in heads:
        for seed in settings.seeds:
            on_progress(f"{label}, seed {seed}", done, total)
            done += 1
            if (label, seed) not in found:
                if prepared is None:
                    prepared = Prepared(settings, heads, *_maps(settings, splits, backbone, device, on_progress), key)
                found[label, seed] = _guarded(prepared, label, seed, found, measure)
            yield found[label, seed]
    on_progress("done", total, total)


def _guarded(prepared: Prepared, label: str, seed: int, found: dict[tuple[str, int], Run], measure: Measure) -> Run:
    """One result; what the pool raises becomes one that says so, and the other pools go on."""
    try:
        before = next((run for (name, _), run in found.items() if name == label and not run.failed), None)
        return _run(prepared, label, seed, before, measure)
    except (RuntimeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return Run(key=prepared.key, pool=label, seed=seed, failed=reason)


def _run(prepared: Prepared, label: str, seed: int, before: Run | None, measure: Measure) -> Run:
    """Train one pool with one seed on all training pictures and judge it on the test."""
    settings, head, train, test = prepared.probe, prepared.heads[label], prepared.train, prepared.test
    device = train.targets.device
    if before is None:
        tried = choose_lr(settings, train.targets, lambda lr, part, rest: _held_out(prepared, head, lr, part, rest))
    else:
        tried = Tried(before.lr, before.lr_tried)
    fitted = fit(head, train, torch.arange(len(train)), settings, lr=tried.lr, seed=seed)
    answers = logits(fitted.network, test, torch.arange(len(test)))
    right = (answers.argmax(1) == test.targets) & answers.isfinite().all(1)
    return Run(
        key=prepared.key,
        pool=label,
        seed=seed,
        lr=tried.lr,
        lr_tried=tried.accuracies,
        top1=float(right.double().mean()),
        images=len(test),
        right=pack(right),
        diverged_at=fitted.diverged_at,
        size=representation_size(fitted.network, test),
        pool_parameters=_count(fitted.network, "pool"),
        classifier_parameters=_count(fitted.network, "classifier"),
        seconds=fitted.seconds,
        batch_size=min(settings.batch_size, len(train)),
        costs=before.costs if before else measure(training_pass(fitted.network, train, settings.batch_size), device),
    )


def _held_out(prepared: Prepared, head: Head, lr: float, part: Tensor, rest: Tensor) -> tuple[float, float]:
    """Accuracy and loss on the training pictures `rest`, learnt from the others, `part`."""
    settings = prepared.probe
    fitted = fit(head, prepared.train, part, settings, lr=lr, seed=settings.seeds[0])
    answers = logits(fitted.network, prepared.train, rest)
    targets = prepared.train.targets[rest.to(answers.device)]
    if fitted.diverged_at is not None:
        return -1.0, float("inf")
    return float((answers.argmax(1) == targets).double().mean()), float(cross_entropy(answers.double(), targets))


def _backbone(settings: Probe) -> Backbone:
    network = covpool.attach(
        settings.backbone,
        "avg",
        1,
        keep_last_stride=settings.keep_last_stride,
        backbone_options=settings.backbone_options,
        pretrained=settings.pretrained,
        weights=settings.weights or None,
    )
    assert isinstance(network.features, Backbone)
    return network.features


def _heads(settings: Probe, backbone: Backbone, classes: int) -> dict[str, Head]:
    """Every pool, built once, so that a mistake in its options comes to light before the work begins."""
    (channels,) = backbone.channels
    width = settings.reduce_to or None
    heads = {
        label: Head(name, options, channels, backbone.layout, width, classes)
        for label, (name, options) in chosen_pools(settings).items()
    }
    for label, head in heads.items():
        try:
            head.make()
        except (TypeError, ValueError) as error:
            raise ValueError(f"`pools`: {label} cannot be built: {error}") from error
    return heads


def _maps(
    settings: Probe, splits: Splits, backbone: Backbone, device: torch.device, on_progress: Progress
) -> tuple[Maps, Maps]:
    """Of the training pictures, with their mirror images, and of the test pictures."""

    def compute(images: Images, what: str, mirrored: bool) -> Maps:
        return compute_maps(
            backbone,
            TestBatches(images, settings.augment, settings.data, batch_size=IMAGES, device=device),
            mirrored=mirrored,
            dtype=DTYPES[settings.maps],
            keep_on=device if settings.keep == "device" else "cpu",
            on_progress=lambda done, of: on_progress(f"feature maps, {what}", done, of),
        )

    def kept(images: Images, what: str, mirrored: bool) -> Maps:
        key = {**_features(settings), "images": [str(path) for path in images.paths], "mirrored": mirrored}
        maps = cached(folder, key, lambda: compute(images, what, mirrored), Maps)
        return maps.to(device, keep=settings.keep)

    folder = Path(settings.cache) if settings.cache else None
    return kept(splits.train, "training", True), kept(splits.test, "test", False)


def _features(settings: Probe) -> dict[str, Any]:
    """All that the features of a picture depend on."""
    told = dataclasses.asdict(settings)
    digest = file_digest(Path(settings.weights)) if settings.weights else ""
    names = ("backbone", "backbone_options", "pretrained", "keep_last_stride", "maps", "augment")
    return {"weights": digest, **{name: told[name] for name in names}}


def _key(settings: Probe, splits: Splits, device: torch.device) -> str:
    """A short name for all that a result depends on but the pool and the seed."""
    told: dict[str, Any] = dataclasses.asdict(settings)
    told = {name: value for name, value in told.items() if name not in NOT_IN_KEY}
    told |= _features(settings)
    told["data"] = {name: told["data"][name] for name in ("name", "split", "train_on", "test_on", "broken")}
    told["images"] = [[path.name for path in images.paths] for images in (splits.train, splits.test)]
    told["device"] = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def _count(network: Network, part: str) -> int:
    return sum(parameter.numel() for parameter in getattr(network, part).parameters())
