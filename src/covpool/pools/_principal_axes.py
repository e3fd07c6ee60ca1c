"""Principal component analysis of descriptors that arrive in batches."""

from collections.abc import Callable

import torch
from torch import Tensor

from covpool._errors import CovpoolError

Summed = Callable[[Tensor], Tensor]  # sums a tensor over all processes


class DescriptorMoments:
    """Count, sum and sum of outer products of descriptors, in float64.

    Args:
        channels: Number of channels of a descriptor.
        device: Where the sums are kept.
    """

    def __init__(self, channels: int, device: torch.device) -> None:
        where = torch.device("cpu") if device.type == "mps" else device  # MPS has no float64
        self._sums = torch.zeros(channels + 1, channels + 1, dtype=torch.float64, device=where)

    def add(self, rows: Tensor) -> None:  # (m, c)
        """Count the descriptors in the rows."""
        rows = rows.to(self._sums)
        rows = torch.cat([rows, rows.new_ones(len(rows), 1)], 1)
        self._sums.addmm_(rows.mT, rows)  # the last column holds the sums, its last entry the count

    def mean_and_covariance(self, summed: Summed) -> tuple[Tensor, Tensor]:  # (c,), (c, c)
        """Return the moments of all descriptors, those of other processes included."""
        sums = summed(self._sums)
        count = float(sums[-1, -1])
        if count < 2 or not sums.isfinite().all():
            found = "descriptors that are not finite" if count >= 2 else f"{count:.0f} descriptor(s)"
            raise CovpoolError(f"a reduction starts from two or more finite descriptors; got {found}")
        mean = sums[-1, :-1] / count
        return mean, sums[:-1, :-1] / count - torch.outer(mean, mean)


def principal_axes(covariance: Tensor, count: int) -> tuple[Tensor, Tensor]:  # (c, c) -> (d, c), (d,)
    """Return the `count` directions of largest variance, one per row, and the variances along them.

    The sign of an axis is fixed: its entry of largest magnitude is positive.

    >>> axes, variances = principal_axes(torch.diag(torch.tensor([1.0, 9.0])), 1)
    >>> axes.tolist(), variances.tolist()
    ([[0.0, 1.0]], [9.0])
    """
    values, vectors = torch.linalg.eigh(covariance)
    axes = vectors.mT.flip(0)[:count]
    largest = axes.gather(1, axes.abs().argmax(1, keepdim=True))
    return axes * torch.where(largest < 0, -1.0, 1.0), values.flip(0)[:count].clamp(min=0)
