"""The order of images in an epoch: independent of the number of processes, and known from any batch on."""

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
    """The images of an epoch for one process, one batch per row: (steps, batch_size).

    All images are permuted and cut into batches for all processes together; process r takes every world_size-th image
    of each, starting with the r-th. The incomplete last batch is left out.

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
    """The batches of one process, in order; over all processes, every image appears once.

    Every process gets the same number of batches of the same sizes, as collective operations require; PADDING fills the
    gaps.

    >>> [batch.tolist() for batch in eval_order(5, 2, Share(2, 1))]
    [[1, 3], [-1]]
    """
    each = -(-count // share.world_size)
    padded = torch.full((each * share.world_size,), PADDING)
    padded[:count] = torch.arange(count)
    return list(padded[share.rank :: share.world_size].split(batch_size))
