"""The covariance of features over their positions."""

from torch import Tensor

from covpool._check_tensors import check_features
from covpool.ops.positions import center, keep_positions
from covpool.ops.precision import full_precision
from covpool.ops.product import product
from covpool.ops.symmetric import symmetrize


@full_precision
def covariance(
    x: Tensor,  # (..., n, c)
    *,
    mask: Tensor | None = None,  # (..., n) bool, True = keep
    weights: Tensor | None = None,  # (..., n)
    centered: bool = True,
) -> Tensor:  # (..., c, c)
    """The biased covariance over positions, sum_i w_i (x_i - mean)(x_i - mean)^T with weights that sum to one.

    The mean is subtracted before the product, so large means cost no accuracy and no n x n matrix is formed.

    Args:
        x: Features, one row per position.
        mask: Positions to keep. Values at other positions, NaN included, have no effect. An empty mask gives zeros.
        weights: A weight for each position. They are normalised to sum to one, and are uniform by default.
        centered: False gives the second moment about zero.

    Shape: (..., n, c) -> (..., c, c), symmetric.

    Reference: "Deep CNNs Meet Global Covariance Pooling", Sigma = X J X^T.

    >>> import torch
    >>> covariance(torch.tensor([[1., 0.], [-1., 0.]])).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    check_features(x)
    x, w = keep_positions(x, mask, weights)
    xc = center(x, w, centered)
    return symmetrize(product(xc.mT, xc / x.shape[-2] if w is None else xc * w.unsqueeze(-1)))
