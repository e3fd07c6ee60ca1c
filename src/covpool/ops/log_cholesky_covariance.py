"""The log-Cholesky coordinates of a covariance, from features, with few passes over float64 matrices.

With K = L^-1 the inverse of the factor, S = sym(K^T Phi(L^T G) K) is the gradient in the matrix for the gradient G in
L. Phi takes the lower triangle with half of the diagonal.
"""

from typing import Any

import torch
from torch import Tensor

from covpool.ops._autograd import (
    Differentiable,
    gradient_of,
    in_forward_mode,
    is_eager,
    is_eager_gradient,
    keep,
    needs_derivative,
)
from covpool.ops._cholesky_inverse import cholesky_inverse
from covpool.ops.covariance import covariance
from covpool.ops.log_cholesky import diagonal_shift, log_cholesky
from covpool.ops.positions import center
from covpool.ops.precision import full_precision, outside_autocast
from covpool.ops.vech import vech


class _Directly(Differentiable):
    """The vector, given with the factor and its inverse. Second derivatives go through torch's operations."""

    @staticmethod
    def forward(
        x: Tensor, w: Tensor | None, z: Tensor, xc: Tensor, lower: Tensor, inverse: Tensor, slope: Tensor,
        eps: float, relative: bool, factor: float,
    ) -> Tensor:  # fmt: skip
        return z.view_as(z)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, w, _, *found = inputs
        *found, ctx.eps, ctx.relative, ctx.factor = found
        keep(ctx, x, w, *found)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, w, *found = ctx.saved_tensors
        with outside_autocast(g):
            if torch.is_grad_enabled() or not is_eager_gradient(g):
                dx = gradient_of(lambda x: _plain(x, w, ctx.eps, ctx.relative, ctx.factor), x, g)
            else:
                dx = _gradient(w, g, *found, factor=ctx.factor)
        return dx, *[None] * 9


@full_precision
def log_cholesky_covariance(
    x: Tensor,  # (b, n, c)
    w: Tensor | None,  # (b, n), sums to one
    *,
    eps: float,
    relative: bool,
    factor: float,
) -> Tensor:  # (b, c (c + 1) / 2)
    """The columns of the lower triangle of log_cholesky(covariance(x)), its diagonal times `factor`, in x's dtype.

    It is computed in float64.

    Args:
        x: Features.
        w: Weights of the positions.
        eps, relative: See `log_cholesky`.
        factor: What multiplies the diagonal.
    """
    options = eps, relative, factor
    if in_forward_mode() or not is_eager(x, w) or (w is not None and w.requires_grad):
        return _plain(x, w, *options)
    z, *found = _value(x.detach(), w, *options)
    return _Directly.apply(x, w, z, *found, *options) if needs_derivative(x, None) else z


def _plain(x: Tensor, w: Tensor | None, eps: float, relative: bool, factor: float) -> Tensor:
    sigma = covariance(x.double(), weights=None if w is None else w.double())
    k = log_cholesky(sigma, eps=eps, relative=relative).mT
    return vech(k if factor == 1 else k + (factor - 1) * k.diagonal(dim1=-2, dim2=-1).diag_embed()).to(x.dtype)


def _value(
    x: Tensor, w: Tensor | None, eps: float, relative: bool, factor: float
) -> tuple[Tensor, ...]:  # (b, c (c + 1) / 2); (b, n, c), two of (b, c, c), (b, 1)
    """The vector; and what its gradient needs: the centered features, L, L^-1, and the slope of e in the trace."""
    exact, weights = x.double(), None if w is None else w.double()
    xc = center(exact, weights)
    weighted, scale = _weighted(xc, weights)
    sigma = _scaled_product(xc.mT, weighted, scale)
    diagonal = sigma.diagonal(dim1=-2, dim2=-1)
    shift, slope = diagonal_shift(diagonal.sum(-1, keepdim=True), x.shape[-1], eps, relative, sigma.dtype)
    diagonal.add_(shift)
    lower, inverse, failed = cholesky_inverse(sigma)
    fault = torch.where(failed.unsqueeze(-1), torch.nan, torch.zeros_like(slope))  # not positive definite gives NaN
    columns, on_diagonal = _columns(x.shape[-1], x.device)
    z = lower.mT.flatten(-2).index_select(-1, columns)
    z.index_copy_(-1, on_diagonal, lower.diagonal(dim1=-2, dim2=-1).log() * factor + fault)
    return z.to(x.dtype), xc, lower, inverse, slope + fault


def _gradient(
    w: Tensor | None, g: Tensor, xc: Tensor, lower: Tensor, inverse: Tensor, slope: Tensor, *, factor: float
) -> Tensor:  # (b, n, c)
    c = xc.shape[-1]
    columns, _ = _columns(c, xc.device)
    dl = lower.new_zeros(len(xc), c * c).index_copy_(-1, columns, g.double()).unflatten(-1, (c, c)).mT
    dl.diagonal(dim1=-2, dim2=-1).mul_(factor / lower.diagonal(dim1=-2, dim2=-1))
    phi = (lower.mT @ dl).tril_()
    phi.diagonal(dim1=-2, dim2=-1).mul_(0.5)
    ds = inverse.mT @ (phi @ inverse)  # its symmetric part is the gradient in the matrix
    on_diagonal = ds.diagonal(dim1=-2, dim2=-1)
    on_diagonal.add_(on_diagonal.sum(-1, keepdim=True) * slope)
    weighted, scale = _weighted(xc, None if w is None else w.double())
    return _scaled_product(weighted, ds, scale).baddbmm_(weighted, ds.mT, alpha=scale).to(g.dtype)


def _weighted(xc: Tensor, w: Tensor | None) -> tuple[Tensor, float]:
    """Features and a number whose product is xc times the weights."""
    return (xc, 1 / xc.shape[-2]) if w is None else (xc * w.unsqueeze(-1), 1.0)


def _scaled_product(left: Tensor, right: Tensor, scale: float) -> Tensor:
    """scale left right."""
    return torch.baddbmm(left.new_zeros(()), left, right, beta=0, alpha=scale)


def _columns(c: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Where the lower triangle is in a matrix stored by columns, and where the diagonal is in the triangle."""
    columns, rows = torch.triu_indices(c, c, device=device).unbind()
    first = torch.arange(c, device=device)
    return columns * c + rows, first * (2 * c - first + 1) // 2
