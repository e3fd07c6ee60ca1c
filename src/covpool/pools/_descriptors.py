"""Checks of the descriptors of training images from which a pool is initialized."""

from torch import Tensor

from covpool._check_tensors import check_floating
from covpool._errors import CovpoolError


def check_descriptors(
    descriptors: Tensor,  # (m, c), after the reduction
    channels: int,
    *,
    least: int = 1,
) -> None:
    """Refuse descriptors of the wrong width, too few descriptors, and NaN or infinite values."""
    check_floating("descriptors", descriptors)
    if descriptors.ndim != 2 or descriptors.shape[1] != channels or len(descriptors) < least:
        raise CovpoolError(
            f"`descriptors` must have shape (m, {channels}), m >= {least}, after the reduction, as "
            f"`pool.descriptors(features)` returns them; got {tuple(descriptors.shape)}"
        )
    if not descriptors.isfinite().all():
        raise CovpoolError("`descriptors` must be finite; got NaN or infinite values: see covpool.diagnostics")
