"""The autograd Functions of iSQRT-COV: by polynomial, by eigenvalues, by kernels."""

from typing import Any

import torch
from torch import Tensor

from covpool._errors import UnsupportedError
from covpool.ops._autograd import Differentiable, OfKernels, beyond_kernels, differentiated_again, is_eager, keep
from covpool.ops._isqrt_forms import (
    GramForm,
    adjoint,
    normalized,
    scaled,
    scaled_adjoint,
    smaller,
    spectral,
    spectral_adjoint_dual,
    spectral_adjoint_primal,
    tangent,
    value,
)
from covpool.ops.elementary import symmetrize
from covpool.ops.precision import outside_autocast
from covpool.ops.sqrtm_newton_schulz import Prenorm
from covpool.ops.vech import from_triangle, vech


def _constant_weights(differentiated: bool) -> None:
    if differentiated:
        raise UnsupportedError("this form of isqrt_covariance has no derivative in the weights: use form='primal'")


class ByPolynomial(Differentiable):
    """The primal and the dual form. Only x and the weights are saved; the backward pass repeats the iteration."""

    @staticmethod
    def forward(
        x: Tensor, w: Tensor | None, form: GramForm, iterations: int, prenorm: Prenorm, postcomp: bool
    ) -> Tensor:
        return value(x, w, form, iterations, prenorm, postcomp)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        _constant_weights(ctx.needs_input_grad[1])
        x, w = ctx.saved_tensors
        with outside_autocast(g):
            return adjoint(x, w, g, *ctx.options), None, None, None, None, None

    @staticmethod
    def tangent(ctx: Any, dx: Tensor, dw: Tensor | None, *_: None) -> Tensor:
        _constant_weights(dw is not None)
        x, w = ctx.saved_tensors
        return tangent(x, w, dx, *ctx.options)


class ByEigenvalues(Differentiable):
    """The spectral form, given the decomposition of the smaller Gram matrix, which is saved.

    Second derivatives go through the polynomial instead.
    """

    @staticmethod
    def forward(
        x: Tensor, w: Tensor | None, operand: Tensor, eigenvalues: Tensor, u: Tensor, t: Tensor,
        iterations: int, prenorm: Prenorm, postcomp: bool,
    ) -> Tensor:  # fmt: skip
        scale = t.sqrt() if postcomp else torch.ones_like(t)
        return spectral(operand, eigenvalues, u, scale, smaller(*x.shape[-2:]), iterations)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, w, operand, eigenvalues, u, t, *ctx.options = inputs
        rotated = operand if smaller(*x.shape[-2:]) == "dual" else None
        keep(ctx, x, w, rotated, eigenvalues, u, t)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        _constant_weights(ctx.needs_input_grad[1])
        x, w, rotated, eigenvalues, u, t = ctx.saved_tensors
        iterations, prenorm, postcomp = ctx.options
        with outside_autocast(g):
            if differentiated_again():
                dx = adjoint(x, w, g, smaller(*x.shape[-2:]), iterations, prenorm, postcomp)
            else:
                decomposition = (t, symmetrize(g), eigenvalues, u, iterations, prenorm, postcomp)
                if rotated is None:
                    k, _ = normalized(scaled(x, w), prenorm)
                    dk = spectral_adjoint_primal(k, *decomposition)
                else:
                    dk = spectral_adjoint_dual(rotated, *decomposition)
                dx = scaled_adjoint(dk, w)
        return dx, *[None] * 8

    @staticmethod
    def tangent(ctx: Any, dx: Tensor, dw: Tensor | None, *_: None) -> Tensor:
        _constant_weights(dw is not None)
        x, w, *_ = ctx.saved_tensors
        return tangent(x, w, dx, smaller(*x.shape[-2:]), *ctx.options)


class ByKernels(OfKernels):
    """The triangle of the result. x, A and the moments are saved.

    Second derivatives and the tangent go through torch's operations instead.
    """

    @staticmethod
    def forward(
        x: Tensor, w: Tensor | None, z: Tensor, a: Tensor, mean: Tensor, squares: Tensor,
        form: GramForm, iterations: int, postcomp: bool, precision: str,
    ) -> Tensor:  # fmt: skip
        return z.view_as(z)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, w, _, a, mean, squares, *ctx.options = inputs
        keep(ctx, x, w, a, mean, squares)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        _constant_weights(ctx.needs_input_grad[1])
        x, w, a, mean, squares = ctx.saved_tensors
        form, iterations, postcomp, precision = ctx.options
        if beyond_kernels(g):
            with outside_autocast(g):
                upper = torch.triu(from_triangle(g, x.shape[-1]))
                dx = adjoint(x.float(), w, upper, form, iterations, "trace", postcomp).to(x.dtype)
        else:
            from covpool.kernels import isqrt  # at first use: `import covpool` must not import triton

            run = isqrt.backward_eager if is_eager(x, w, a, mean, squares, g) else isqrt.backward
            dx = run(x, w, a, mean, squares, g, form, iterations, postcomp, precision)
        return dx, *[None] * 9

    @staticmethod
    def tangent(ctx: Any, dx: Tensor, dw: Tensor | None, *_: None) -> Tensor:
        _constant_weights(dw is not None)
        x, w, *_ = ctx.saved_tensors
        form, iterations, postcomp, _ = ctx.options
        with outside_autocast(dx):
            return vech(tangent(x.float(), w, dx.float(), form, iterations, "trace", postcomp))
