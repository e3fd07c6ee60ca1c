"""Training one pool by SGD on the feature maps, with a learning rate chosen on held-out training images."""

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from covpool.models import Network
from covpool.studies._frozen import vector_length
from covpool.studies._pool_spec import PoolSpec
from covpool.studies.probe._fit import fit, logits, training_pass
from covpool.studies.probe._inputs import Measure, ProbeInputs
from covpool.studies.probe._lr_choice import LrChoice, choose_lr
from covpool.studies.probe._result import ProbeResult, pack


def run_sgd(inputs: ProbeInputs, label: str, seed: int, before: ProbeResult | None, measure: Measure) -> ProbeResult:
    """Train one pool with one seed on all training images and evaluate it on the test images.

    Args:
        inputs: What all pools share.
        label: Label of the pool.
        seed: Seed of the weights, the order of images and the flips.
        before: Result of this pool with another seed. Its learning rate and costs hold for this one.
        measure: Measures the cost of forward and backward of pool and classifier.
    """
    settings, head, train, test = inputs.probe, inputs.heads[label], inputs.train, inputs.test
    device = train.targets.device
    if before is None:
        choice = choose_lr(settings, train.targets, partial(_held_out, inputs, head))
    else:
        choice = LrChoice(before.lr, before.lr_tried)
    fitted = fit(head, train, torch.arange(len(train)), settings, lr=choice.lr, seed=seed)
    answers = logits(fitted.network, test, torch.arange(len(test)))
    right = (answers.argmax(1) == test.targets) & answers.isfinite().all(1)
    return ProbeResult(
        key=inputs.key,
        pool=label,
        seed=seed,
        lr=choice.lr,
        lr_tried=choice.accuracies,
        held_out=choice.accuracies.get(f"{choice.lr:g}"),
        top1=float(right.double().mean()),
        images=len(test),
        right=pack(right),
        diverged_at=fitted.diverged_at,
        channels=fitted.network.pool.channels[0],
        size=vector_length(fitted.network.pool, test),
        pool_parameters=_count(fitted.network, "pool"),
        classifier_parameters=_count(fitted.network, "classifier"),
        seconds=fitted.seconds,
        batch_size=min(settings.batch_size, len(train)),
        costs=before.costs if before else measure(training_pass(fitted.network, train, settings.batch_size), device),
    )


def _held_out(
    inputs: ProbeInputs, head: PoolSpec, lr: float, fold: int, part: Tensor, rest: Tensor
) -> tuple[float, float]:
    """Train on the images `part` and return accuracy and loss on the images `rest`; -1 if the training diverges."""
    fitted = fit(head, inputs.train, part, inputs.probe, lr=lr, seed=fold)
    answers = logits(fitted.network, inputs.train, rest)
    targets = inputs.train.targets[rest.to(answers.device)]
    if fitted.diverged_at is not None:
        return -1.0, float("inf")
    return float((answers.argmax(1) == targets).double().mean()), float(cross_entropy(answers.double(), targets))


def _count(network: Network, part: str) -> int:
    return sum(parameter.numel() for parameter in getattr(network, part).parameters())
