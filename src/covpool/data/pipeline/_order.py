"""Which picture comes when: the same whatever the number of processes, and known from any point of an epoch on."""

import torch
from torch import Tensor

from covpool.data.pipeline._samples import PADDING, seed_of


def train_order(count: int, batch_size: int, *, world_size: int, rank: int, seed: int, epoch: int) -> Tensor:
    """The pictures of an epoch for one process, a batch per row: (steps, batch_size).

    One permutation of all pictures, cut into batches for all processes together, of which process r takes every
    world_size-th beginning with the r-th. The incomplete last batch is left out.

    >>> two = [train_order(9, 2, world_size=2, rank=r, seed=0, epoch=3) for r in (0, 1)]
    >>> one = train_order(9, 4, world_size=1, rank=0, seed=0, epoch=3)
    >>> bool((torch.stack(two, -1).flatten(1) == one).all())
    True
    """
    steps = count // (batch_size * world_size)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed_of(seed, epoch)))
    return order[: steps * batch_size * world_size].view(steps, batch_size, world_size)[..., rank]


def test_order(count: int, batch_size: int, *, world_size: int, rank: int) -> list[Tensor]:
    """All pictures, once over all processes, in order: batches of process r, as many and as large as everybody's.

    Where the pictures do not go round, PADDING fills up, so that collective operations meet.

    >>> [batch.tolist() for batch in test_order(5, 2, world_size=2, rank=1)]
    [[1, 3], [-1]]
    """
    each = -(-count // world_size)
    padded = torch.full((each * world_size,), PADDING)
    padded[:count] = torch.arange(count)
    return list(padded[rank::world_size].split(batch_size))
