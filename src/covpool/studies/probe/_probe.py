"""Probe: compare pools on the frozen features of a backbone, in minutes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from covpool._progress import OnProgress, discard
from covpool.data.sets import open_data
from covpool.models import Network
from covpool.studies._feature_maps import Maps
from covpool.studies.probe._fit import HeadSpec, fit, logits, representation_size, training_pass
from covpool.studies.probe._inputs import make_backbone, make_heads, make_maps, settings_key
from covpool.studies.probe._lr_choice import LrChoice, choose_lr
from covpool.studies.probe._result import ProbeResult, pack
from covpool.studies.probe._settings import Probe

Measure = Callable[[Callable[[], None], torch.device], dict[str, float | None]]


@dataclass(frozen=True)
class ProbeInputs:
    """Everything that the trainings share."""

    probe: Probe
    heads: dict[str, HeadSpec]
    train: Maps
    test: Maps
    key: str


def no_costs(call: Callable[[], None], device: torch.device) -> dict[str, float | None]:
    """Measure nothing."""
    return {}


def probe(
    settings: Probe,
    *,
    device: torch.device | str = "cpu",
    known: Iterable[ProbeResult] = (),
    measure: Measure = no_costs,
    on_progress: OnProgress = discard,
) -> Iterator[ProbeResult]:
    """Train every pool with every seed on the feature maps of one frozen backbone.

    The learning rate of each pool is chosen on held-out training images. Then the pool is trained on all training
    images. The test images are used once, to evaluate the trained head.

    Args:
        settings: Settings of `read_probe`.
        device: Device of the backbone and the pools.
        known: Earlier results. Those with the same settings are reused.
        measure: Measures the cost of forward and backward of pool and classifier, such as {"ms_per_batch": ...}.
        on_progress: Called with the progress.

    Yields:
        One result per pool and seed, as soon as it is known. The result of a pool that fails says why.
    """
    device = torch.device(device)
    splits = open_data(settings.data)
    backbone = make_backbone(settings).to(device)
    heads = make_heads(settings, backbone, len(splits.train.classes))
    key = settings_key(settings, splits, device)
    found = {(run.pool, run.seed): run for run in known if run.key == key and not run.failed}
    total, done = len(heads) * len(settings.seeds), 0
    prepared: ProbeInputs | None = None
    for label in heads:
        for seed in settings.seeds:
            on_progress(f"{label}, seed {seed}", done, total)
            done += 1
            if (label, seed) not in found:
                if prepared is None:
                    prepared = ProbeInputs(
                        settings, heads, *make_maps(settings, splits, backbone, device, on_progress), key
                    )
                found[label, seed] = _guarded(prepared, label, seed, found, measure)
            yield found[label, seed]
    on_progress("done", total, total)


def _guarded(
    prepared: ProbeInputs, label: str, seed: int, found: dict[tuple[str, int], ProbeResult], measure: Measure
) -> ProbeResult:
    """Compute one result. An error of the pool becomes a result that states it, so that other pools go on."""
    try:
        before = next((run for (name, _), run in found.items() if name == label and not run.failed), None)
        return _run(prepared, label, seed, before, measure)
    except (RuntimeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return ProbeResult(key=prepared.key, pool=label, seed=seed, failed=reason)


def _run(prepared: ProbeInputs, label: str, seed: int, before: ProbeResult | None, measure: Measure) -> ProbeResult:
    """Train one pool with one seed on all training images and evaluate it on the test images."""
    settings, head, train, test = prepared.probe, prepared.heads[label], prepared.train, prepared.test
    device = train.targets.device
    if before is None:
        choice = choose_lr(settings, train.targets, partial(_held_out, prepared, head))
    else:
        choice = LrChoice(before.lr, before.lr_tried)
    fitted = fit(head, train, torch.arange(len(train)), settings, lr=choice.lr, seed=seed)
    answers = logits(fitted.network, test, torch.arange(len(test)))
    right = (answers.argmax(1) == test.targets) & answers.isfinite().all(1)
    return ProbeResult(
        key=prepared.key,
        pool=label,
        seed=seed,
        lr=choice.lr,
        lr_tried=choice.accuracies,
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


def _held_out(
    prepared: ProbeInputs, head: HeadSpec, lr: float, fold: int, part: Tensor, rest: Tensor
) -> tuple[float, float]:
    """Train on the images `part` and return accuracy and loss on the images `rest`; -1 if the training diverges."""
    fitted = fit(head, prepared.train, part, prepared.probe, lr=lr, seed=fold)
    answers = logits(fitted.network, prepared.train, rest)
    targets = prepared.train.targets[rest.to(answers.device)]
    if fitted.diverged_at is not None:
        return -1.0, float("inf")
    return float((answers.argmax(1) == targets).double().mean()), float(cross_entropy(answers.double(), targets))


def _count(network: Network, part: str) -> int:
    return sum(parameter.numel() for parameter in getattr(network, part).parameters())
