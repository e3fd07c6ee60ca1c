"""The cross-covariance of two sets of features over the positions they share."""

from torch import Tensor

from covpool._check_tensors import check_features
from covpool._errors import CovpoolError
from covpool.ops.positions import center, keep_positions
from covpool.ops.precision import at_least_float32, full_precision, product


@full_precision
def cross_covariance(
    x: Tensor,  # (..., n, c)
    y: Tensor,  # (..., n, d)
    *,
    mask: Tensor | None = None,  # (..., n) bool, True = keep
    weights: Tensor | None = None,  # (..., n)
    centered: bool = True,
) -> Tensor:  # (..., c, d)
    """The biased cross-covariance over positions, sum_i w_i (x_i - mean x)(y_i - mean y)^T, weights that sum to one.

    Args:
        x, y: Features, one row per position.
        mask, weights: Mask and weights of the positions, see `covariance`. An empty mask gives zeros.
        centered: False gives the cross-moment about zero, the bilinear features of two streams.

    Shape: (..., n, c), (..., n, d) -> (..., c, d).

    >>> import torch
    >>> cross_covariance(torch.tensor([[1.], [-1.]]), torch.tensor([[3., 5.], [1., 5.]])).tolist()
    [[1.0, 0.0]]
    """
    check_features(x)
    check_features(y)
    if x.shape[:-1] != y.shape[:-1]:
        raise CovpoolError(f"`x` and `y` must have the same positions; got {tuple(x.shape)} and {tuple(y.shape)}")
    y, _ = keep_positions(at_least_float32(y), mask, weights)
    x, w = keep_positions(x, mask, weights)
    xc = center(x, w, centered)
    return product((xc / x.shape[-2] if w is None else xc * w.unsqueeze(-1)).mT, center(y, w, centered))
