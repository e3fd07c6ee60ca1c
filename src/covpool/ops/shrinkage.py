"""Shrinkage of the covariance towards a multiple of the identity, with an intensity estimated from the features."""

from typing import Literal

import torch
from torch import Tensor

from covpool._check_tensors import check_features
from covpool._errors import CovpoolError, check_choice
from covpool.ops.covariance import covariance
from covpool.ops.elementary import inner, one_if_zero
from covpool.ops.positions import center, count, keep_positions
from covpool.ops.precision import full_precision

Shrinkage = Literal["ledoit_wolf", "oas"]
SHRINKAGES: tuple[Shrinkage, ...] = ("ledoit_wolf", "oas")


@full_precision
def shrunk_covariance(
    x: Tensor,  # (..., n, c)
    *,
    shrinkage: Shrinkage = "ledoit_wolf",
    mask: Tensor | None = None,  # (..., n) bool, True = keep
    weights: Tensor | None = None,
) -> Tensor:  # (..., c, c)
    """(1 - s) Sigma + s (tr(Sigma) / c) I, with s in [0, 1] estimated from the features themselves.

    With fewer positions than channels the covariance is singular; the shrunk covariance is regular where s > 0. The
    derivative includes that of s.

    Args:
        x: Features, one row per position.
        shrinkage: Estimator of s: "ledoit_wolf", or "oas" (Oracle Approximating Shrinkage, which assumes Gaussian
            features). Both equal scikit-learn's.
        mask: Positions to keep; n is their number in each item. An empty mask gives zeros.
        weights: Must be None: both estimators are defined for positions of equal weight.

    Shape: (..., n, c) -> (..., c, c), symmetric.

    Reference: Ledoit and Wolf, "A well-conditioned estimator for large-dimensional covariance matrices"; Chen et al.,
    "Shrinkage algorithms for MMSE covariance estimation", eq. 23.

    >>> import torch
    >>> shrunk_covariance(torch.tensor([[1., 1.], [-1., -1.], [0., 0.]]))
    tensor([[0.6667, 0.4444],
            [0.4444, 0.6667]])
    """
    check_features(x)
    check_choice("shrinkage", shrinkage, SHRINKAGES)
    if weights is not None:
        raise CovpoolError("`shrinkage` is not defined for weighted positions; use a mask, or no shrinkage")
    kept, w = keep_positions(x, mask, None)
    xc = center(kept, w)
    if mask is not None:
        xc = torch.where(mask.unsqueeze(-1), xc, 0)
    # s has no unit, so dividing x by a constant keeps its fourth powers within float32 and changes no derivative
    unit = xc.detach().abs().amax((-2, -1), keepdim=True)
    xc = xc / one_if_zero(unit)
    sigma = covariance(xc, mask=mask, centered=False)
    identity = torch.eye(x.shape[-1], dtype=sigma.dtype, device=sigma.device)
    target = inner(sigma, identity) / x.shape[-1] * identity
    n = count(kept, w).clamp(min=1)[..., None, None]
    s = _ledoit_wolf(xc, sigma, target, n) if shrinkage == "ledoit_wolf" else _oas(sigma, target, n)
    return (sigma + s * (target - sigma)) * unit**2


def _ledoit_wolf(xc: Tensor, sigma: Tensor, target: Tensor, n: Tensor) -> Tensor:
    """The mean squared distance of x x^T from Sigma, over n times the squared distance of Sigma from the target."""
    fourth = xc.square().sum(-1).square().sum(-1)[..., None, None] / n
    noise = (fourth - inner(sigma, sigma)).clamp(min=0) / n
    return _at_most_one(noise, inner(sigma - target, sigma - target))


def _oas(sigma: Tensor, target: Tensor, n: Tensor) -> Tensor:
    """(|Sigma|^2 + tr(Sigma)^2) / ((n + 1) |Sigma - target|^2); |target|^2 = tr(Sigma)^2 / c."""
    c = sigma.shape[-1]
    size = inner(sigma, sigma) + inner(target, target) * c
    return _at_most_one(size, (n + 1) * inner(sigma - target, sigma - target))


def _at_most_one(numerator: Tensor, denominator: Tensor) -> Tensor:
    """min(numerator / denominator, 1), with no derivative where it is one; one where both are zero."""
    whole = numerator >= denominator
    return torch.where(whole, 1, numerator / torch.where(whole, 1, denominator))
