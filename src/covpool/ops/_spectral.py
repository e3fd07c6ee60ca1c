"""Functions of a symmetric matrix through its eigenvalues, differentiated by divided differences.

For Z = U f(L) U^T the derivative in a symmetric direction H is U (f[i, j] o (U^T H U)) U^T, and it is its own adjoint.
The second derivative in G and H is U S U^T, S_ij = sum_k f[i, k, j] (g_ik h_kj + h_ik g_kj), with g = U^T G U.
"""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from covpool._errors import UnsupportedError
from covpool.ops import _divided_differences, _second_divided_differences
from covpool.ops._autograd import Differentiable, keep
from covpool.ops.elementary import one_if_zero, power_or_zero, symmetrize
from covpool.ops.precision import outside_autocast

Derivative = Callable[..., Tensor]
SpectralKind = Literal["power", "power_released", "power_in_range", "log", "vn_mle"]  # in_range: 0^alpha = 0, no slope
LARGEST_CHUNK = 2**24  # second divided differences at a time


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
    value = value.detach().abs()
    return torch.nextafter(value, torch.full_like(value, torch.inf)) - value


def _value(eigenvalues: Tensor, alpha: Tensor | None, kind: SpectralKind) -> Tensor:
    if kind == "log":
        return eigenvalues.log()
    assert alpha is not None
    if kind == "power_in_range":
        return power_or_zero(eigenvalues, alpha)
    return vn_mle(eigenvalues, alpha)[0] if kind == "vn_mle" else eigenvalues**alpha


def _differences(eigenvalues: Tensor, alpha: Tensor | None, kind: SpectralKind) -> Tensor:
    if kind == "log":
        return _divided_differences.of_log(eigenvalues)
    assert alpha is not None
    if kind == "vn_mle":
        return _divided_differences.of_vn_mle(vn_mle(eigenvalues, alpha)[1], alpha)
    d = _divided_differences.of_power(eigenvalues, alpha)
    if kind != "power":  # the released code sets the null eigenvectors to zero, and with them these entries
        null = eigenvalues == 0
        d = torch.where(null.unsqueeze(-1) | null.unsqueeze(-2), 0, d)
    return d


def _second_differences(
    x: Tensor, y: Tensor, z: Tensor, alpha: Tensor | None, kind: SpectralKind
) -> Tensor:  # three shapes that broadcast
    if kind == "log":
        return _second_divided_differences.of_log(x, y, z)
    assert alpha is not None
    if kind == "vn_mle":
        x, y, z = (vn_mle(value, alpha)[1] for value in (x, y, z))
        return _second_divided_differences.of_vn_mle(x, y, z, alpha)
    d = _second_divided_differences.of_power(x, y, z, alpha)
    return torch.where((x == 0) | (y == 0) | (z == 0), 0, d) if kind == "power_in_range" else d


def _second_derivative(
    g: Tensor,  # (..., c, c)
    h: Tensor,  # (..., c, c)
    alpha: Tensor | None,
    eigenvalues: Tensor,  # (..., c)
    u: Tensor,  # (..., c, c)
    kind: SpectralKind,
) -> Tensor:  # (..., c, c)
    """The second derivative in the directions G and H, which is linear in each and symmetric. Some rows at a time."""
    g, h = rotate(u, g), rotate(u, h)
    c = eigenvalues.shape[-1]
    rows = max(1, LARGEST_CHUNK // max(1, h.numel()))
    parts = []
    for start in range(0, c, rows):
        l = eigenvalues[..., start : start + rows]  # noqa: E741
        d = _second_differences(
            l[..., :, None, None], eigenvalues[..., None, :, None], eigenvalues[..., None, None, :], alpha, kind
        )  # (..., rows, c, c)
        parts.append((g[..., start : start + rows, :, None] * d * h.unsqueeze(-3)).sum(-2))
    half = torch.cat(parts, -2) if parts else torch.zeros_like(g)
    return u @ (half + half.mT) @ u.mT


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


def keep_missing(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """A `setup_context` after which a missing gradient or tangent is None instead of zeros."""
    Differentiable.setup_context(ctx, inputs, output)
    ctx.set_materialize_grads(False)


class SpectralFunction(Differentiable):
    """U f(L) U^T for a given decomposition (L, U) of a, f(l) = l^alpha, log(l) or `vn_mle`; twice differentiable."""

    setup_context = staticmethod(keep_missing)

    @staticmethod
    def forward(a: Tensor, alpha: Tensor | None, eigenvalues: Tensor, u: Tensor, kind: SpectralKind) -> Tensor:
        return compose(u, _value(eigenvalues, alpha, kind))

    @staticmethod
    def backward(ctx: Any, g: Tensor | None) -> Any:
        if g is None:
            return (None,) * 5
        a, alpha, eigenvalues, u = ctx.saved_tensors
        da = dalpha = None
        with outside_autocast(g):
            if ctx.needs_input_grad[0]:
                da = SpectralDerivative.call(a, g, alpha, eigenvalues, u, *ctx.options)
            if alpha is not None and ctx.needs_input_grad[1]:
                slope, h = slope_in_alpha(eigenvalues, alpha), rotate(u, g)
                dalpha = once((slope * h.diagonal(dim1=-2, dim2=-1)).sum(), a, alpha)
        return da, dalpha, None, None, None

    @staticmethod
    def tangent(ctx: Any, da: Tensor | None, dalpha: Tensor | None, *_: Any) -> Tensor:
        a, alpha, eigenvalues, u = ctx.saved_tensors
        dz = torch.zeros_like(u)
        if da is not None:
            dz = dz + SpectralDerivative.call(a, da, alpha, eigenvalues, u, *ctx.options)
        if dalpha is not None:
            dz = dz + once(dalpha * compose(u, slope_in_alpha(eigenvalues, alpha)), a, alpha)
        return dz


class SpectralDerivative(Differentiable):
    """The derivative of a `SpectralFunction` in the direction g; differentiable in g, and once in a."""

    setup_context = staticmethod(keep_missing)

    @staticmethod
    def forward(
        a: Tensor, g: Tensor, alpha: Tensor | None, eigenvalues: Tensor, u: Tensor, kind: SpectralKind
    ) -> Tensor:
        return u @ (_differences(eigenvalues, alpha, kind) * rotate(u, g)) @ u.mT

    @staticmethod
    def backward(ctx: Any, h: Tensor | None) -> Any:
        if h is None:
            return (None,) * 6
        a, g, *decomposition = ctx.saved_tensors
        in_a, in_g, in_alpha, *_ = ctx.needs_input_grad
        da = dg = None
        with outside_autocast(h):
            if in_a or in_alpha:
                _check_second(in_alpha, *ctx.options)
                da = once(_second_derivative(g, h, *decomposition, *ctx.options), a, None)
            if in_g:
                dg = SpectralDerivative.call(a, h, *decomposition, *ctx.options)
        return da, dg, None, None, None, None

    @staticmethod
    def tangent(ctx: Any, da: Tensor | None, dg: Tensor | None, dalpha: Tensor | None, *_: Any) -> Tensor:
        a, g, *decomposition = ctx.saved_tensors
        dz = torch.zeros_like(g)
        if da is not None or dalpha is not None:
            _check_second(dalpha is not None, *ctx.options)
            assert da is not None
            dz = dz + once(_second_derivative(g, da, *decomposition, *ctx.options), a, None)
        if dg is not None:
            dz = dz + SpectralDerivative.call(a, dg, *decomposition, *ctx.options)
        return dz


def _check_second(in_alpha: bool, kind: SpectralKind) -> None:
    if in_alpha:
        raise UnsupportedError("second derivatives in the exponent or in gamma are not supported: hold it fixed")
    if kind == "power_released":
        raise UnsupportedError(
            "second derivatives need null_gradient='exact': with 'released' the first is not that of any function"
        )


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
        ctx.set_materialize_grads(False)

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
        "second derivatives of this operation (third ones of powers and logarithms) are not supported; for "
        "the square root sqrtm_newton_schulz and isqrt_covariance have derivatives of any order"
    )
