"""Masks and weights of positions, turned into weights that sum to one."""

import torch
from torch import Tensor

from covpool._check_tensors import check_positions
from covpool._errors import CovpoolError
from covpool.ops._autograd import is_eager
from covpool.ops.elementary import one_if_zero


def keep_positions(
    x: Tensor,  # (..., n, c)
    mask: Tensor | None,  # (..., n) bool, True = keep
    weights: Tensor | None,  # (..., n)
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor | None]:  # (..., n, c), (..., n)
    """Set masked positions of x to zero and return the weights of all positions, which sum to one; None = uniform.

    Values at masked positions, NaN included, have no effect. An empty mask gives zero weights. The sum is computed in
    at least float32, so that it does not overflow. `dtype` is the dtype of the weights, by default that of x.
    Weights that are negative or not finite are refused on a CPU, outside of compiled and transformed functions.
    """
    if mask is None and weights is None:
        return x, None
    if weights is not None:
        check_positions("weights", weights, x.shape[:-1])
    wide = torch.promote_types(x.dtype, torch.float32)
    if mask is not None:
        check_positions("mask", mask, x.shape[:-1])
        kept = mask.to(wide)
        w = kept if weights is None else torch.where(mask, weights.to(wide), 0)
        x = torch.where(mask.unsqueeze(-1), x, 0)
    else:
        assert weights is not None
        w = weights.to(wide)
    if weights is not None:
        _check_not_negative(w)
    total = w.sum(-1, keepdim=True)
    return x, torch.where(total == 0, 0, w / one_if_zero(total)).to(dtype or x.dtype)


def _check_not_negative(weights: Tensor) -> None:
    """Refuse weights that give no covariance. On a GPU the check would wait for the device, so it is left out."""
    if weights.device.type == "cpu" and is_eager(weights) and not bool(((weights >= 0) & weights.isfinite()).all()):
        raise CovpoolError(
            f"`weights` must be finite and not negative; got {float(weights.min())} as the smallest: apply a softmax "
            "or a ReLU to attention scores"
        )


def mean(
    x: Tensor,  # (..., n, c)
    w: Tensor | None,  # (..., n), sums to one
) -> Tensor:  # (..., c)
    """The weighted mean over positions."""
    return x.mean(-2) if w is None else (w.unsqueeze(-1) * x).sum(-2)


def center(
    x: Tensor,  # (..., n, c)
    w: Tensor | None,  # (..., n), sums to one
    centered: bool = True,
) -> Tensor:  # (..., n, c)
    """x minus its weighted mean over positions (or x itself)."""
    if not centered:
        return x
    return x - mean(x, w).unsqueeze(-2)


def count(
    x: Tensor,  # (..., n, c)
    w: Tensor | None,  # (..., n)
) -> Tensor:  # (...) or ()
    """The number of positions with a nonzero weight, or all n."""
    return x.new_full((), x.shape[-2]) if w is None else (w != 0).sum(-1).to(x.dtype)


def zero_if_empty(
    z: Tensor,  # (..., d)
    w: Tensor | None,  # (..., n)
) -> Tensor:  # (..., d)
    """z, with zeros for an item without kept positions."""
    return z if w is None else torch.where((w == 0).all(-1, keepdim=True), 0, z)
