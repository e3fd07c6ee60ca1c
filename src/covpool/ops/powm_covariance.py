"""A power of the covariance of features, through the eigenvalues of the smaller of the two Gram matrices.

With K (n, c) the centered features scaled so that the covariance is t K^T K, t its trace, and K K^T = V diag(l) V^T,
the rows of U = diag(l)^(-1/2) V^T K are the eigenvectors of the covariance in its range, and t l its eigenvalues there.
"""

from typing import Any, Literal

import torch
from torch import Tensor

from covpool._check_tensors import check_features
from covpool._errors import check_choice
from covpool.ops import _divided_differences
from covpool.ops._autograd import Differentiable, differentiated_again
from covpool.ops._backend import exporting
from covpool.ops._isqrt_forms import GramForm, gram, normalized, scaled, smaller
from covpool.ops._spectral import SpectralDerivative, SpectralFunction, compose, keep_missing, once, slope_in_alpha
from covpool.ops.covariance import covariance
from covpool.ops.eigh import eigh
from covpool.ops.elementary import power_or_zero, reciprocal_or_zero, symmetrize
from covpool.ops.positions import keep_positions
from covpool.ops.powm_eigh import (
    Normalization,
    NullGradient,
    Threshold,
    check_alpha,
    check_options,
    divide_by_norm,
    null_threshold,
    powm_eigh,
)
from covpool.ops.precision import full_precision, outside_autocast


def _decompose(k0: Tensor, eps: Threshold | float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """t, l, V and U of centered features; null eigenvalues, and their rows of U, are zero."""
    k, t = normalized(k0, "trace")
    values, v = eigh(gram(k, "dual"))
    w = v.mT @ k
    # |w_i|^2 is closer to the small eigenvalues than the solver's values, and makes the rows of U unit vectors.
    # The solver's values are added times zero, because they are NaN where the solver failed.
    eigenvalues = (w * w).sum(-1) + values * 0
    in_unit_of_x = eigenvalues * t.squeeze(-1)
    null = in_unit_of_x <= null_threshold(in_unit_of_x, eps, k.shape[-1])
    eigenvalues = torch.where(null, 0, eigenvalues)
    return t, eigenvalues, v, w * reciprocal_or_zero(eigenvalues).sqrt().unsqueeze(-1)


def _slope(
    u: Tensor,  # (..., n, c)
    h: Tensor,  # (..., n, c), U H
    eigenvalues: Tensor,  # (..., n)
    alpha: Tensor,  # ()
    *,
    within: float,
    released: bool,
) -> Tensor:  # (..., n, c)
    """U L[H] for the derivative L of the power in a symmetric direction H, its range-range block times `within`.

    Range-range: divided differences D. Range-null: l^(alpha - 1) (H - what U spans), dropped by the released code.
    """
    inside = h @ u.mT
    d = within * _divided_differences.of_power(eigenvalues, alpha)
    if released:
        return (d * inside) @ u
    q = power_or_zero(eigenvalues, alpha - 1).unsqueeze(-1)
    return ((d - q) * inside) @ u + q * h


class _DualPower(Differentiable):
    """t^alpha U^T diag(l^alpha) U for a given decomposition of k0 = sqrt(t) K; twice differentiable if n <= c + 1.

    The power is homogeneous, (k0^T k0)^alpha = t^alpha (K^T K)^alpha for any t, so t is a constant in its derivatives.
    Where a second derivative may follow, the first goes through K^T (K K^T)^(alpha - 1) K.
    """

    setup_context = staticmethod(keep_missing)

    @staticmethod
    def forward(
        k0: Tensor, alpha: Tensor, t: Tensor, eigenvalues: Tensor, v: Tensor, u: Tensor, released: bool
    ) -> Tensor:
        return compose(u.mT, eigenvalues**alpha) * t**alpha

    @staticmethod
    def backward(ctx: Any, g: Tensor | None) -> Any:
        if g is None:
            return (None,) * 7
        k0, alpha, t, eigenvalues, v, u = ctx.saved_tensors
        dk0 = dalpha = None
        (released,) = ctx.options
        with outside_autocast(g):
            h = u @ symmetrize(g)
            if ctx.needs_input_grad[0] and _may_be_differentiated(k0, released):
                dk0 = _adjoint(k0, symmetrize(g), alpha, t, eigenvalues, v)
            elif ctx.needs_input_grad[0]:
                rows = _slope(u, h, eigenvalues, alpha, within=1, released=released)
                scale = 2 * t**alpha * reciprocal_or_zero(t).sqrt()
                dk0 = once(v @ (rows * (eigenvalues.sqrt().unsqueeze(-1) * scale)), k0, alpha)
            if ctx.needs_input_grad[1]:
                slope = slope_in_alpha(eigenvalues * t.squeeze(-1), alpha)
                dalpha = once((slope * (h * u).sum(-1)).sum(), k0, alpha)
        return dk0, dalpha, None, None, None, None, None

    @staticmethod
    def tangent(ctx: Any, dk0: Tensor | None, dalpha: Tensor | None, *_: Any) -> Tensor:
        k0, alpha, t, eigenvalues, v, u = ctx.saved_tensors
        dz = torch.zeros_like(k0.mT @ k0)
        if dk0 is not None and not ctx.options[0]:
            dz = _tangent(k0, dk0, alpha, t, eigenvalues, v)
            dz = dz if _has_second(k0) else once(dz, k0, alpha)
        elif dk0 is not None:
            root = eigenvalues.sqrt().unsqueeze(-1)
            dw = v.mT @ dk0 * reciprocal_or_zero(t).sqrt()
            h = root * dw + (u @ dw.mT) @ (root * u)  # U (dK^T K + K^T dK)
            half = u.mT @ _slope(u, h, eigenvalues, alpha, within=0.5, released=True)
            dz = dz + once((half + half.mT) * t**alpha, k0, alpha)
        if dalpha is not None:
            dz = dz + once(dalpha * compose(u.mT, slope_in_alpha(eigenvalues * t.squeeze(-1), alpha)), k0, alpha)
        return dz


def _may_be_differentiated(k0: Tensor, released: bool) -> bool:
    return differentiated_again() and not released and _has_second(k0)


def _has_second(k0: Tensor) -> bool:
    """Whether centered features can have full row rank, so that (K K^T)^(alpha - 1) is smooth where it acts."""
    n, c = k0.shape[-2:]
    return n <= c + 1


def _adjoint(
    k0: Tensor,  # (..., n, c)
    s: Tensor,  # (..., c, c), symmetric
    alpha: Tensor,  # ()
    t: Tensor,  # (..., 1, 1)
    eigenvalues: Tensor,  # (..., n)
    v: Tensor,  # (..., n, n)
) -> Tensor:  # (..., n, c)
    """The gradient of <S, t^alpha K^T P K>, P = (K K^T)^(alpha - 1), in k0, by differentiable operations."""
    scale = reciprocal_or_zero(t).sqrt()
    k = k0 * scale
    function = (alpha - 1, eigenvalues, v, "power_in_range")
    a, ks = gram(k, "dual"), k @ s
    p = SpectralFunction.call(a, *function)
    slope = SpectralDerivative.call(a, symmetrize(ks @ k.mT), *function)
    return 2 * (p @ ks + slope @ k) * (t**alpha * scale)


def _tangent(
    k0: Tensor,  # (..., n, c)
    dk0: Tensor,  # (..., n, c)
    alpha: Tensor,  # ()
    t: Tensor,  # (..., 1, 1)
    eigenvalues: Tensor,  # (..., n)
    v: Tensor,  # (..., n, n)
) -> Tensor:  # (..., c, c)
    """The derivative of t^alpha K^T P K in the direction dk0, see `_adjoint`."""
    scale = reciprocal_or_zero(t).sqrt()
    k, dk = k0 * scale, dk0 * scale
    function = (alpha - 1, eigenvalues, v, "power_in_range")
    a = gram(k, "dual")
    p = SpectralFunction.call(a, *function)
    dp = SpectralDerivative.call(a, 2 * symmetrize(dk @ k.mT), *function)
    return (2 * symmetrize(dk.mT @ (p @ k)) + k.mT @ (dp @ k)) * t**alpha


def choose_power_form(n: int, c: int, weight_gradient: bool, exported: bool) -> GramForm:
    """The form with the smaller matrix, but primal for gradients in the weights and in exported graphs of any shape."""
    return "primal" if weight_gradient or exported else smaller(n - 1, c)  # at n = c too the covariance is singular


@full_precision
def powm_covariance(
    x: Tensor,  # (..., n, c)
    alpha: float | Tensor,
    *,
    eps: Threshold | float = "rank",
    normalization: Normalization | None = None,
    null_gradient: NullGradient = "exact",
    mask: Tensor | None = None,  # (..., n) bool, True = keep
    weights: Tensor | None = None,  # (..., n)
    centered: bool = True,
    form: GramForm | Literal["auto"] = "auto",
) -> Tensor:  # (..., c, c)
    """A power of the covariance of features: powm_eigh(covariance(x), alpha), faster for few positions.

    Second derivatives are exact if the covariance has the largest rank that the number of kept positions allows, and
    at most c. They are refused in alpha, with null_gradient="released", and in the dual form with n > c + 1.

    Args:
        x: Features, one row per position.
        alpha, eps, normalization, null_gradient: See `powm_eigh`.
        mask, weights, centered: See `covariance`.
        form: "primal" decomposes the c x c covariance, "dual" the n x n Gram matrix of the features; both give the same
            result, and "auto" takes the smaller. The derivative of "dual" in a weight is infinite where that weight is
            zero ("auto" chooses "primal" for weights that require grad).

    Shape: (..., n, c) -> (..., c, c).

    Reference: "Deep CNNs Meet Global Covariance Pooling", MPN-COV; the dual form is ours.

    >>> import torch
    >>> x = torch.randn(2, 49, 64, dtype=torch.float64)
    >>> torch.allclose(powm_covariance(x, 0.5), powm_eigh(covariance(x), 0.5))
    True
    """
    check_features(x)
    check_options(eps, normalization, null_gradient)
    check_choice("form", form, ("auto", "primal", "dual"))
    n, c = x.shape[-2:]
    weight_gradient = weights is not None and weights.requires_grad
    chosen = choose_power_form(n, c, weight_gradient, exporting()) if form == "auto" else form
    if chosen == "primal":
        sigma = covariance(x, mask=mask, weights=weights, centered=centered)
        return powm_eigh(sigma, alpha, eps=eps, normalization=normalization, null_gradient=null_gradient)
    power = check_alpha(alpha, x)
    k0 = scaled(*keep_positions(x, mask, weights), centered)
    decomposition = _decompose(k0.detach(), eps)
    z: Tensor = _DualPower.call(k0, power, *decomposition, null_gradient == "released")
    return divide_by_norm(z, decomposition[-1][..., -1:, :].mT, normalization)
