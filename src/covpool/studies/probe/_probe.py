"""Probe: which pool suits a backbone and a data set, found on frozen features in minutes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from covpool.data.sets import open_data
from covpool.models import Network
from covpool.studies._feature_maps import Maps
from covpool.studies.probe._choice import Tried, choose_lr
from covpool.studies.probe._fit import Head, fit, logits, representation_size, training_pass
from covpool.studies.probe._inputs import Progress, make_backbone, make_heads, make_maps, settings_key
from covpool.studies.probe._run import Run, pack
from covpool.studies.probe._settings import Probe

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

    For each pool the learning rate is chosen first, on held-out parts of the training pictures; then it
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
    device = torch.device(device)
    splits = open_data(settings.data)
    backbone = make_backbone(settings).to(device)
    heads = make_heads(settings, backbone, len(splits.train.classes))
    key = settings_key(settings, splits, device)
    found = {(run.pool, run.seed): run for run in known if run.key == key and not run.failed}
    total, done = len(heads) * len(settings.seeds), 0
    prepared: Prepared | None = None
    for label in heads:
        for seed in settings.seeds:
            on_progress(f"{label}, seed {seed}", done, total)
            done += 1
            if (label, seed) not in found:
                if prepared is None:
                    prepared = Prepared(
                        settings, heads, *make_maps(settings, splits, backbone, device, on_progress), key
                    )
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
        tried = choose_lr(settings, train.targets, partial(_held_out, prepared, head))
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


def _held_out(prepared: Prepared, head: Head, lr: float, fold: int, part: Tensor, rest: Tensor) -> tuple[float, float]:
    """Accuracy and loss on the training pictures `rest`, learnt from the others, `part`; -1 if it diverged."""
    fitted = fit(head, prepared.train, part, prepared.probe, lr=lr, seed=fold)
    answers = logits(fitted.network, prepared.train, rest)
    targets = prepared.train.targets[rest.to(answers.device)]
    if fitted.diverged_at is not None:
        return -1.0, float("inf")
    return float((answers.argmax(1) == targets).double().mean()), float(cross_entropy(answers.double(), targets))


def _count(network: Network, part: str) -> int:
    return sum(parameter.numel() for parameter in getattr(network, part).parameters())
