"""The learning rate of a pool, chosen on training pictures that it does not learn from."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from covpool.train.probe_settings import Probe

FACTOR = 10.0  # from the last of a single learning rate to the next that is tried

# (lr, pictures to learn from, held-out pictures) -> accuracy and loss on the latter; of two that are right equally
# often, the one with the lower loss is better
Judge = Callable[[float, Tensor, Tensor], tuple[float, float]]


@dataclass(frozen=True)
class Tried:
    """The learning rate that was chosen, and the accuracy with every one that was tried."""

    lr: float
    accuracies: dict[str, float]


def choose_lr(probe: Probe, targets: Tensor, judge: Judge) -> Tried:
    """The learning rate with the best accuracy on held-out training pictures.

    While the best is the smallest or the largest of those tried, one beyond it is tried too, `extend_lr` times.

    Args:
        probe: which are tried.
        targets: (n,), classes of the training pictures.
        judge: tries one.
    """
    if len(probe.lr) == 1 and not probe.extend_lr:
        return Tried(probe.lr[0], {})
    rest = held_out(targets.cpu(), probe.held_out)
    found = {lr: judge(lr, (~rest).nonzero().flatten(), rest.nonzero().flatten()) for lr in sorted(probe.lr)}
    for _ in range(probe.extend_lr):
        beyond = _beyond(sorted(found), _best(found))
        if beyond is None:
            break
        found[beyond] = judge(beyond, (~rest).nonzero().flatten(), rest.nonzero().flatten())
    return Tried(_best(found), {f"{lr:g}": found[lr][0] for lr in sorted(found)})


def held_out(targets: Tensor, share: float) -> Tensor:  # (n,) -> (n,) bool
    """The same share of every class, drawn once and for all; a class of one picture keeps it for learning.

    >>> held_out(torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 2]), 0.25).sum()
    tensor(2)
    """
    drawn = torch.randperm(len(targets), generator=torch.Generator().manual_seed(0))
    order = drawn[targets[drawn].argsort(stable=True)]  # class by class, random within
    counts = targets.bincount()
    first = (counts.cumsum(0) - counts)[targets[order]]
    wanted = (counts * share).round().clamp(min=1).clamp(max=counts - 1)[targets[order]]
    result = torch.zeros(len(targets), dtype=torch.bool)
    result[order] = torch.arange(len(targets)) - first < wanted
    return result


def _best(found: dict[float, tuple[float, float]]) -> float:
    """The smaller one, where two are equally good: all diverged, for example."""
    return min(found, key=lambda lr: (-found[lr][0], found[lr][1], lr))


def _beyond(tried: list[float], best: float) -> float | None:
    """The next learning rate outside of those tried, on the side where the best one is."""
    step = tried[-1] / tried[-2] if len(tried) > 1 else FACTOR
    if best == tried[-1]:
        return best * step
    return best / (tried[1] / tried[0]) if best == tried[0] else None
