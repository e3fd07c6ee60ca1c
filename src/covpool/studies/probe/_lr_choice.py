"""Choosing the learning rate of a pool on held-out training images."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from covpool.studies.probe._settings import Probe

FACTOR = 10.0  # step between learning rates when the settings give only one

# (learning rate, fold, images to learn from, held-out images) -> accuracy and loss on the held-out images
EvaluateLr = Callable[[float, int, Tensor, Tensor], tuple[float, float]]


@dataclass(frozen=True)
class LrChoice:
    """The chosen learning rate, and the held-out accuracy of every learning rate tried."""

    lr: float
    accuracies: dict[str, float]


def choose_lr(probe: Probe, targets: Tensor, evaluate: EvaluateLr) -> LrChoice:
    """Choose the learning rate with the best accuracy on held-out training images.

    While the best one is the smallest or the largest, the next one beyond it is tried, at most `extend_lr` times. Then
    the learning rates halfway to its neighbors are tried: a factor of ten is too coarse for a fair comparison.

    Args:
        probe: Settings that say which learning rates to try.
        targets: Targets of the training images, (n,).
        evaluate: Evaluates one learning rate. A training that diverges has accuracy -1, and one such fold is enough to
            reject the learning rate.
    """
    if len(probe.lr) == 1 and not probe.extend_lr:
        return LrChoice(probe.lr[0], {})
    rest = [held_out(targets.cpu(), probe.held_out, fold) for fold in range(probe.folds)]

    def mean(lr: float) -> tuple[float, float]:
        evaluated = [
            evaluate(lr, f, (~held).nonzero().flatten(), held.nonzero().flatten()) for f, held in enumerate(rest)
        ]
        accuracies, losses = zip(*evaluated, strict=True)
        diverged = min(accuracies) < 0
        return (-1.0, math.inf) if diverged else (sum(accuracies) / probe.folds, sum(losses) / probe.folds)

    found = {lr: mean(lr) for lr in probe.lr}
    for _ in range(probe.extend_lr):
        beyond = _beyond(sorted(found), _best(found))
        if beyond is None:
            break
        found[beyond] = mean(beyond)
    if probe.refine_lr:
        found |= {lr: mean(lr) for lr in _halfway(sorted(found), _best(found))}
    return LrChoice(_best(found), {f"{lr:g}": found[lr][0] for lr in sorted(found)})


def held_out(targets: Tensor, share: float, fold: int = 0) -> Tensor:  # (n,) -> (n,) bool
    """Select the held-out images of a fold: the same fraction of every class, and other images in every fold.

    The selection does not depend on the seed. A class with a single image keeps it for learning.

    >>> held_out(torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 2]), 0.25).sum()
    tensor(2)
    """
    drawn = torch.randperm(len(targets), generator=torch.Generator().manual_seed(0))
    order = drawn[targets[drawn].argsort(stable=True)]  # sorted by class, in random order within each
    counts = targets.bincount()
    first = (counts.cumsum(0) - counts)[targets[order]]
    wanted = (counts * share).round().clamp(min=1).clamp(max=counts - 1)[targets[order]]
    result = torch.zeros(len(targets), dtype=torch.bool)
    position = (torch.arange(len(targets)) - first - fold * wanted) % counts[targets[order]]
    result[order] = position < wanted
    return result


def _best(found: dict[float, tuple[float, float]]) -> float:
    """Return the learning rate with the highest accuracy. Ties go to the lowest loss, then to the smallest rate."""
    return min(found, key=lambda lr: (-found[lr][0], found[lr][1], lr))


def _halfway(tried: list[float], best: float) -> list[float]:
    """Return the geometric means of the best learning rate and its neighbors, to three digits."""
    at = tried.index(best)
    return [float(f"{math.sqrt(best * lr):.3g}") for lr in (*tried[max(at - 1, 0) : at], *tried[at + 1 : at + 2])]


def _beyond(tried: list[float], best: float) -> float | None:
    """Return the next learning rate beyond the best one if that is the smallest or the largest, else None."""
    step = tried[-1] / tried[-2] if len(tried) > 1 else FACTOR
    if best == tried[-1]:
        return best * step
    return best / (tried[1] / tried[0]) if best == tried[0] else None
