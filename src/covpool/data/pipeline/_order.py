"""Which picture comes when: the same whatever the number of processes, and known from any point of an epoch on."""

from dataclasses import dataclass

import torch
from torch import Tensor

from covpool.data.pipeline._samples import PADDING, seed_of


@dataclass(frozen=True)
class Share:
    """The part of every batch that one of several processes loads."""

    world_size: int = 1
    rank: int = 0


ALONE = Share()


def train_order(count: int, batch_size: int, share: Share, *, seed: int, epoch: int) -> Tensor:
    """The pictures of an epoch for one process, a batch per row: (steps, batch_size).

    One permutation of all pictures, cut into batches for all processes together, of which process r takes every
    world_size-th beginning with the r-th. The incomplete last batch is left out.

    >>> two = [train_order(9, 2, Share(2, r), seed=0, epoch=3) for r in (0, 1)]
    >>> one = train_order(9, 4, Share(), seed=0, epoch=3)
    >>> bool((torch.stack(two, -1).flatten(1) == one).all())
    True
    """
    together = batch_size * share.world_size
    steps = count // together
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed_of(seed, epoch)))
    return order[: steps * together].view(steps, batch_size, share.world_size)[..., share.rank]


def eval_order(count: int, batch_size: int, share: Share) -> list[Tensor]:
    """All pictures, once over all processes, in order: batches of process r, as many and as large as everybody's.

    Where the pictures do not go round, PADDING fills up, so that collective operations meet.

    >>> [batch.tolist() for batch in eval_order(5, 2, Share(2, 1))]
    [[1, 3], [-1]]
    """
    each = -(-count // share.world_size)
    padded = torch.full((each * share.world_size,), PADDING)
    padded[:count] = torch.arange(count)
    return list(padded[share.rank :: share.world_size].split(batch_size))
