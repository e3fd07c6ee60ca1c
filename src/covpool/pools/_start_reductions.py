"""Starting the reductions of a pool from the principal axes of its features."""

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, cast

from torch import Tensor

from covpool._errors import CovpoolError
from covpool.pools._principal_axes import DescriptorMoments, Summed
from covpool.pools._reduction import Reduction

if TYPE_CHECKING:
    from covpool.pools.base import Pool

Batches = Iterable[Tensor | tuple[Tensor, ...]]
Masks = Iterable[Tensor] | None


def start_reductions(pool: "Pool", batches: Batches, masks: Masks, summed: Summed) -> None:
    """Start every convolution of the reductions, one after another; see `Pool.init_reduction`."""
    reductions = [cast(Reduction, reduction) for reduction in pool.reduce]
    blocks = len(reductions[0].convolutions)
    if not blocks:
        raise CovpoolError(f"{type(pool).__name__} has no reduction to start: build it with `reduce_to`")
    if blocks > 1 and (isinstance(batches, Iterator) or isinstance(masks, Iterator)):
        raise CovpoolError(f"a chain of {blocks} convolutions reads the batches {blocks} times: give a list of them")
    was_training = pool.training
    pool.eval()
    try:
        for block in range(blocks):
            for reduction, found in zip(reductions, _moments(pool, reductions, block, batches, masks), strict=True):
                reduction.start_block(block, *found.mean_and_covariance(summed))
    finally:
        pool.train(was_training)


def _moments(
    pool: "Pool", reductions: list[Reduction], block: int, batches: Batches, masks: Masks
) -> list[DescriptorMoments]:
    """Return the moments of the input of one block of every reduction, over all batches."""
    moments: list[DescriptorMoments] = []
    pairs = zip(batches, itertools.repeat(None)) if masks is None else zip(batches, masks, strict=True)
    for batch, mask in pairs:
        features = batch if isinstance(batch, tuple) else (batch,)
        inputs = [
            reduction.input_rows(block, x, kept)
            for reduction, (x, kept) in zip(reductions, pool.masked_maps(features, mask), strict=True)
        ]
        moments = moments or [DescriptorMoments(rows.shape[1], rows.device) for rows in inputs]
        for found, rows in zip(moments, inputs, strict=True):
            found.add(rows)
    if not moments:
        raise CovpoolError("a reduction starts from two or more finite descriptors; got no batch")
    return moments
