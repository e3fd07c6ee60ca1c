"""Functions of a symmetric matrix through its eigenvalues, differentiated by divided differences.

For Z = U f(L) U^T the derivative in a symmetric direction H is U (f[i, j] o (U^T H U)) U^T, and it is its own adjoint.
"""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from covpool._errors import UnsupportedError
from covpool.ops import _divided_differences
from covpool.ops._autograd import Differentiable, keep
from covpool.ops.precision import outside_autocast
from covpool.ops.safe_division import one_if_zero
from covpool.ops.symmetric import symmetrize

Derivative = Callable[..., Tensor]
SpectralKind = Literal["power", "power_released", "log", "vn_mle"]


def compose(
    u: Tensor,  # (..., c, c)
    f: Tensor,  # (..., c)
) -> Tensor:  # (..., c, c)
    """U diag(f) U^T."""
    return (u * f.unsqueeze(-2)) @ u.mT


def rotate(
    u: Tensor,  # (..., c, c)
    h: Tensor,  # (..., c, c)
) -> Tensor:  # (..., c, c)
    """U^T sym(H) U: a direction in the basis of the eigenvectors."""
    return u.mT @ symmetrize(h) @ u


def eps_of(value: Tensor) -> Tensor:
    """The distance from |value| to the next larger number of its dtype (Matlab's eps)."""
    value = value.abs()
    return torch.nextafter(value, torch.full_like(value, torch.inf)) - value


def _value(eigenvalues: Tensor, alpha: Tensor | None, kind: SpectralKind) -> Tensor:
    if kind == "log":
        return eigenvalues.log()
    assert alpha is not None
    return vn_mle(eigenvalues, alpha)[0] if kind == "vn_mle" else eigenvalues**alpha


def _differences(eigenvalues: Tensor, alpha: Tensor | None, kind: SpectralKind) -> Tensor:
    if kind == "log":
        return _divided_differences.of_log(eigenvalues)
    assert alpha is not None
    if kind == "vn_mle":
        return _divided_differences.of_vn_mle(vn_mle(eigenvalues, alpha)[1], alpha)
    d = _divided_differences.of_power(eigenvalues, alpha)
    if kind == "power_released":  # the released code sets the null eigenvectors to zero, and with them these entries
        null = eigenvalues == 0
        d = torch.where(null.unsqueeze(-1) | null.unsqueeze(-2), 0, d)
    return d


def vn_mle(
    eigenvalues: Tensor,  # (..., c), non-negative
    gamma: Tensor,  # ()
) -> tuple[Tensor, Tensor]:  # (..., c), (..., c)
    """s = r - b, r = sqrt(b^2 + l / gamma), b = (1 - gamma) / (2 gamma), without cancellation; and r."""
    b = (1 - gamma) / (2 * gamma)
    r = (b * b + eigenvalues / gamma).sqrt()
    total = r + b.abs()
    return torch.where(b < 0, total, eigenvalues / gamma / one_if_zero(total)), r


def slope_in_alpha(eigenvalues: Tensor, alpha: Tensor) -> Tensor:
    """d(l^alpha) / d(alpha) = l^alpha log(l), zero at l = 0."""
    null = eigenvalues == 0
    l = torch.where(null, 1, eigenvalues)  # noqa: E741
    return torch.where(null, 0, l**alpha * l.log())


class SpectralFunction(Differentiable):
    """U f(L) U^T for a given decomposition (L, U) of a, f(l) = l^alpha, log(l) or `vn_mle`; once differentiable."""

    @staticmethod
    def forward(a: Tensor, alpha: Tensor | None, eigenvalues: Tensor, u: Tensor, kind: SpectralKind) -> Tensor:
        return compose(u, _value(eigenvalues, alpha, kind))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        a, alpha, eigenvalues, u = ctx.saved_tensors
        da = dalpha = None
        with outside_autocast(g):
            h = rotate(u, g)
            if ctx.needs_input_grad[0]:
                da = once(u @ (_differences(eigenvalues, alpha, *ctx.options) * h) @ u.mT, a, alpha)
            if alpha is not None and ctx.needs_input_grad[1]:
                slope = slope_in_alpha(eigenvalues, alpha)
                dalpha = once((slope * h.diagonal(dim1=-2, dim2=-1)).sum(), a, alpha)
        return da, dalpha, None, None, None

    @staticmethod
    def tangent(ctx: Any, da: Tensor | None, dalpha: Tensor | None, *_: Any) -> Tensor:
        a, alpha, eigenvalues, u = ctx.saved_tensors
        dz = torch.zeros_like(u)
        if da is not None:
            dz = dz + u @ (_differences(eigenvalues, alpha, *ctx.options) * rotate(u, da)) @ u.mT
        if dalpha is not None:
            dz = dz + dalpha * compose(u, slope_in_alpha(eigenvalues, alpha))
        return once(dz, a, alpha)


class ByDecomposition(Differentiable):
    """The value z of a function of a, found through a decomposition of a; once differentiable.

    `derivative(h, values, u, v)` is the derivative in the direction h, which must be its own adjoint.
    """

    @staticmethod
    def forward(a: Tensor, z: Tensor, values: Tensor, u: Tensor, v: Tensor | None, derivative: Derivative) -> Tensor:
        return z.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        a, _, values, u, v, ctx.derivative = inputs
        keep(ctx, a, values, u, v)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        with outside_autocast(g):
            return ByDecomposition.tangent(ctx, g), None, None, None, None, None

    @staticmethod
    def tangent(ctx: Any, h: Tensor, *_: Any) -> Tensor:
        a, *decomposition = ctx.saved_tensors
        return once(ctx.derivative(h, *decomposition), a, None)


class _Once(Differentiable):
    """The identity on a first derivative that holds a's eigenvectors fixed. Differentiating it again is an error."""

    @staticmethod
    def forward(derivative: Tensor, a: Tensor, alpha: Tensor | None) -> Tensor:
        return derivative.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        if any(ctx.needs_input_grad[1:]):
            _refuse_second_derivative()
        return g, None, None

    @staticmethod
    def tangent(ctx: Any, dd: Tensor | None, da: Tensor | None, dalpha: Tensor | None) -> Tensor | None:
        if da is not None or dalpha is not None:
            _refuse_second_derivative()
        return dd


def once(derivative: Tensor, a: Tensor, alpha: Tensor | None) -> Tensor:
    """Mark a first derivative so that a second one, in a or alpha, raises an error."""
    return _Once.call(derivative, a, alpha)


def _refuse_second_derivative() -> None:
    raise UnsupportedError(
        "second derivatives of functions by eigen-decomposition are not supported; "
        "for the square root use sqrtm_newton_schulz or isqrt_covariance, which have exact ones"
    )
