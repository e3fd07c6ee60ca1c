"""The square root of a symmetric matrix by Newton-Schulz iteration (iSQRT)."""

import warnings
from typing import Any, Literal

import torch
from torch import Tensor

from covpool._check_tensors import check_square
from covpool._errors import CovpoolWarning, check_choice, check_positive_int
from covpool.kernels.precision import PRECISIONS, Precision
from covpool.ops._autograd import Differentiable, beyond_kernels, is_eager
from covpool.ops._backend import Backend, choose_backend, exporting, kernels_serve, matmul_precision
from covpool.ops._newton_schulz import newton_schulz, newton_schulz_pair
from covpool.ops.elementary import frobenius_norm, inner, power_or_zero, reciprocal_or_zero, symmetrize
from covpool.ops.precision import at_least_float32, outside_autocast

Prenorm = Literal["trace", "frobenius"]

# With more, the factor P, which grows as 1.5^N on the null space, costs float32 more accuracy than a step gains.
MOST_FLOAT32_ITERATIONS = 20


def check_iteration(iterations: int, prenorm: str, dtype: torch.dtype) -> None:
    """Check the settings of the iteration, and warn if they lose accuracy."""
    check_positive_int("iterations", iterations)
    check_choice("prenorm", prenorm, ("trace", "frobenius"))
    if iterations > MOST_FLOAT32_ITERATIONS and dtype == torch.float32:
        warnings.warn(
            f"{iterations} Newton-Schulz iterations lose accuracy in float32 on singular matrices and end in NaN "
            f"from about 30 on; use at most {MOST_FLOAT32_ITERATIONS}, float64, or powm_eigh(a, 0.5)",
            CovpoolWarning,
            stacklevel=3,
        )


def _norm(s: Tensor, prenorm: Prenorm) -> Tensor:
    if prenorm == "trace":
        return s.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    return frobenius_norm(s)


def root(s: Tensor, iterations: int, prenorm: Prenorm, postcomp: bool) -> Tensor:
    """sqrt(t) Y_N(s / t) in plain torch operations."""
    t = _norm(s, prenorm)
    (y,) = newton_schulz((s * reciprocal_or_zero(t),), iterations, "root")
    return y * t.sqrt() if postcomp else y


def _adjoint(s: Tensor, g: Tensor, iterations: int, prenorm: Prenorm, postcomp: bool) -> Tensor:
    """The gradient in s: with A = s / t and L = dY_N[sym(G)], (L + (<G, Y_N> / 2 - <L, A>) dt) / sqrt(t)."""
    r = reciprocal_or_zero(_norm(s, prenorm))
    a = s * r
    g = symmetrize(g)
    y, l = newton_schulz_pair(a, g, iterations, "root")  # noqa: E741
    factor = -inner(l, a)
    if postcomp:
        factor = factor + inner(g, y) * 0.5
        r = power_or_zero(r, 0.5)
    dt = torch.eye(s.shape[-1], dtype=s.dtype, device=s.device) if prenorm == "trace" else a
    return (l + factor * dt) * r


def _tangent(s: Tensor, ds: Tensor, iterations: int, prenorm: Prenorm, postcomp: bool) -> Tensor:
    """The derivative in the direction ds."""
    t = _norm(s, prenorm)
    r = reciprocal_or_zero(t)
    a = s * r
    dt = _norm(ds, prenorm) if prenorm == "trace" else inner(a, ds)
    y, dy = newton_schulz_pair(a, (ds - a * dt) * r, iterations, "root")
    return dy * t.sqrt() + y * dt * 0.5 * power_or_zero(r, 0.5) if postcomp else dy


class _Root(Differentiable):
    """sqrt(t) Y_N(s / t), t = tr(s) or |s|_F. Only s is saved; the backward pass repeats the iteration."""

    @staticmethod
    def forward(s: Tensor, iterations: int, prenorm: Prenorm, postcomp: bool) -> Tensor:
        return root(s, iterations, prenorm, postcomp)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (s,) = ctx.saved_tensors
        with outside_autocast(g):
            return _adjoint(s, g, *ctx.options), None, None, None

    @staticmethod
    def tangent(ctx: Any, ds: Tensor, *_: Any) -> Tensor:
        (s,) = ctx.saved_tensors
        return _tangent(s, ds, *ctx.options)


class _RootByKernels(Differentiable):
    """The same by the kernels, which take the symmetric part of a themselves.

    Second derivatives and the tangent go through torch's operations.
    """

    @staticmethod
    def forward(a: Tensor, iterations: int, postcomp: bool, precision: Precision) -> Tensor:
        from covpool.kernels import sqrtm  # at first use: `import covpool` must not import triton

        return (sqrtm.forward_eager if is_eager(a) else sqrtm.forward)(a, iterations, postcomp, precision)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (a,) = ctx.saved_tensors
        iterations, postcomp, precision = ctx.options
        if beyond_kernels(g):
            with outside_autocast(g):
                da = _adjoint(symmetrize(a), g, iterations, "trace", postcomp)
        else:
            from covpool.kernels import sqrtm  # at first use: `import covpool` must not import triton

            run = sqrtm.backward_eager if is_eager(a, g) else sqrtm.backward
            da = run(a, g, iterations, postcomp, precision)
        return da, None, None, None

    @staticmethod
    def tangent(ctx: Any, da: Tensor, *_: Any) -> Tensor:
        (a,) = ctx.saved_tensors
        iterations, postcomp, _ = ctx.options
        return _tangent(symmetrize(a), symmetrize(da), iterations, "trace", postcomp)


def sqrtm_newton_schulz(
    a: Tensor,  # (..., c, c)
    *,
    iterations: int = 5,
    prenorm: Prenorm = "trace",
    postcomp: bool = True,
    backend: Backend | Literal["auto"] = "auto",
    precision: Precision | None = None,
) -> Tensor:  # (..., c, c)
    """The square root of symmetric positive semi-definite matrices by coupled Newton-Schulz iteration.

    A = a / t, Y = A, P = I, then N times T = (3 I - P Y) / 2, Y <- Y T, P <- T P; the result is sqrt(t) Y.
    The paper uses five iterations, which smooth the small eigenvalues instead of taking their exact root.

    Args:
        a: Symmetric positive semi-definite matrices. Only their symmetric part counts.
        iterations: Number of iterations N.
        prenorm: Norm t: the trace or the Frobenius norm of `a`.
        postcomp: Multiply by sqrt(t) at the end (post-compensation). Without it the result ignores the scale of `a`.
        backend, precision: See `isqrt_covariance`.

    Shape: (..., c, c) -> (..., c, c).

    Reference: "Deep CNNs Meet Global Covariance Pooling", iSQRT-COV.

    >>> import torch
    >>> root = sqrtm_newton_schulz(torch.diag(torch.tensor([4., 9.])), iterations=10)
    >>> root.diagonal()
    tensor([2.0000, 3.0000])
    """
    check_square("a", a)
    check_choice("backend", backend, ("auto", "torch", "triton"))
    check_choice("precision", precision, (None, *PRECISIONS))
    product_precision = matmul_precision(a, precision)  # depends on autocast, so it comes before leaving it
    with outside_autocast(a):
        a = at_least_float32(a)
        check_iteration(iterations, prenorm, a.dtype)
        matrices = a.reshape(-1, *a.shape[-2:])
        if exporting():
            return root(symmetrize(matrices), iterations, prenorm, postcomp).reshape(a.shape)
        served = kernels_serve(a, a.shape[-1], iterations, prenorm)
        if choose_backend(backend, a.device.type, served) == "triton":
            z: Tensor = _RootByKernels.call(matrices, iterations, postcomp, product_precision)
        else:
            z = _Root.call(symmetrize(matrices), iterations, prenorm, postcomp)
        return z.reshape(a.shape)
