"""The learning rate of a pool, chosen on training pictures that it does not learn from."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from covpool.studies.probe._settings import Probe

FACTOR = 10.0  # from the last of a single learning rate to the next that is tried

# (lr, number of the fold, pictures to learn from, held-out pictures) -> accuracy and loss on the latter
Judge = Callable[[float, int, Tensor, Tensor], tuple[float, float]]


@dataclass(frozen=True)
class Tried:
    """The learning rate that was chosen, and the accuracy with every one that was tried."""

    lr: float
    accuracies: dict[str, float]


def choose_lr(probe: Probe, targets: Tensor, judge: Judge) -> Tried:
    """The learning rate with the best accuracy on held-out training pictures.

    While the best is the smallest or the largest of those tried, one beyond it is tried too, `extend_lr` times. In the
    end those halfway to its neighbours are tried: a factor of ten is too coarse for some pools to be judged fairly.

    Args:
        probe: which are tried.
        targets: (n,), classes of the training pictures.
        judge: tries one; a training that diverged has the accuracy -1, and one such fold rules its rate out.
    """
    if len(probe.lr) == 1 and not probe.extend_lr:
        return Tried(probe.lr[0], {})
    rest = [held_out(targets.cpu(), probe.held_out, fold) for fold in range(probe.folds)]

    def mean(lr: float) -> tuple[float, float]:
        judged = [judge(lr, f, (~held).nonzero().flatten(), held.nonzero().flatten()) for f, held in enumerate(rest)]
        accuracies, losses = zip(*judged, strict=True)
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
    return Tried(_best(found), {f"{lr:g}": found[lr][0] for lr in sorted(found)})


def held_out(targets: Tensor, share: float, fold: int = 0) -> Tensor:  # (n,) -> (n,) bool
    """The same share of every class, drawn once and for all, another for each fold as long as there are pictures.

    A class of one picture keeps it for learning.

    >>> held_out(torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 2]), 0.25).sum()
    tensor(2)
    """
    drawn = torch.randperm(len(targets), generator=torch.Generator().manual_seed(0))
    order = drawn[targets[drawn].argsort(stable=True)]  # class by class, random within
    counts = targets.bincount()
    first = (counts.cumsum(0) - counts)[targets[order]]
    wanted = (counts * share).round().clamp(min=1).clamp(max=counts - 1)[targets[order]]
    result = torch.zeros(len(targets), dtype=torch.bool)
    place = (torch.arange(len(targets)) - first - fold * wanted) % counts[targets[order]]
    result[order] = place < wanted
    return result


def _best(found: dict[float, tuple[float, float]]) -> float:
    """Highest accuracy, then lowest loss, then the smallest: where all diverged, for example."""
    return min(found, key=lambda lr: (-found[lr][0], found[lr][1], lr))


def _halfway(tried: list[float], best: float) -> list[float]:
    """The geometric means of the best learning rate and its neighbours, to three digits."""
    at = tried.index(best)
    return [float(f"{math.sqrt(best * lr):.3g}") for lr in (*tried[max(at - 1, 0) : at], *tried[at + 1 : at + 2])]


def _beyond(tried: list[float], best: float) -> float | None:
    """The next learning rate outside of those tried, on the side where the best one is."""
    step = tried[-1] / tried[-2] if len(tried) > 1 else FACTOR
    if best == tried[-1]:
        return best * step
    return best / (tried[1] / tried[0]) if best == tried[0] else None
