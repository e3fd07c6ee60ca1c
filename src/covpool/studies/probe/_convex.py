"""Fitting one pool and logistic regression to the feature maps: nothing but the pool differs between results."""

from collections.abc import Callable

import torch

from covpool.pools import Pool
from covpool.studies._feature_maps import Maps
from covpool.studies._frozen import AT_ONCE, fit_frozen
from covpool.studies.probe._inputs import Measure, ProbeInputs
from covpool.studies.probe._result import ProbeResult, pack

# Pools with weights that no data initialize. Several seeds show how much depends on them.
RANDOM_POOLS = ("hihca", "smso", "spdnet", "svpn")


def run_convex(inputs: ProbeInputs, label: str, seed: int, before: ProbeResult | None, measure: Measure) -> ProbeResult:
    """Start a pool from the training images, fit the classifier, and evaluate both on the test images.

    Args:
        inputs: What all pools share.
        label: Label of the pool.
        seed: Seed of weights that no data initialize.
        before: Result of this pool with another seed, whose costs hold for this one.
        measure: Measures the cost of the reduction and the pool.
    """
    head, train, test = inputs.heads[label], inputs.train, inputs.test
    device = train.targets.device
    pool, _ = head.make(seed=seed)
    fitted = fit_frozen(pool, train, head.classes, descriptors=inputs.probe.descriptors)
    scores = fitted.scores(test)
    right = (scores.argmax(1) == test.targets) & scores.isfinite().all(1)
    chosen = fitted.chosen
    return ProbeResult(
        key=inputs.key,
        pool=label,
        seed=seed,
        random=head.name in RANDOM_POOLS,
        penalty=chosen.penalty,
        penalties_tried={f"{penalty:g}": accuracy for penalty, accuracy in chosen.accuracies.items()},
        held_out=chosen.accuracy,
        converged=chosen.converged,
        top1=float(right.double().mean()),
        images=len(test),
        right=pack(right),
        channels=pool.channels[0],
        size=chosen.classifier.weights.shape[1],
        pool_parameters=sum(parameter.numel() for parameter in pool.parameters()),
        classifier_parameters=chosen.classifier.weights.numel() + head.classes,
        seconds=sum(fitted.seconds.values()),
        batch_size=min(AT_ONCE, len(test)),
        costs=before.costs if before else measure(_pooling(pool, test), device),
    )


def _pooling(pool: Pool, maps: Maps) -> Callable[[], None]:
    """Return a function that pools one batch, to measure its cost."""
    x, _ = maps.batch(torch.arange(min(AT_ONCE, len(maps)), device=maps.targets.device))

    @torch.no_grad()
    def run() -> None:
        pool.representation(x)

    return run
