"""Element-wise signed powers, and the element-wise power normalization (E-PN) of bilinear CNNs."""

from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from covpool._check_tensors import check_floating
from covpool._errors import CovpoolError, check_choice
from covpool.kernels import largest_tile
from covpool.kernels.shape import LARGEST_BATCH
from covpool.ops._autograd import Differentiable, gradient_of, is_eager, is_eager_gradient, keep
from covpool.ops.elementary import one_if_zero
from covpool.ops.precision import full_precision

GradientMode = Literal["bcnn", "bcnn_torch", "fast_mpn", "cbp"]
GRADIENT_MODES: tuple[GradientMode, ...] = ("bcnn", "bcnn_torch", "fast_mpn", "cbp")

# The published constants that keep |z|^(-1/2) finite at z = 0, in the unit of z; CBP's is in the unit of sqrt(z).
BCNN_EPS = 1e-8
BCNN_TORCH_EPS = 1e-5
FAST_MPN_EPS = 1e-8
CBP_DAMPING = 0.1

LONGEST_VECTOR = 4096 * LARGEST_BATCH  # that the kernels take: an axis of a launch, in blocks of 4096 elements


def _slope(z: Tensor, rho: float, mode: GradientMode) -> Tensor:
    """The published derivative of sign(z) |z|^rho, finite at zero."""
    if mode == "cbp":
        zero = z == 0
        magnitude = torch.where(zero, 1, z.abs())  # keeps the second derivative finite at zero
        return rho / (torch.where(zero, 0, magnitude ** (1 - rho)) + CBP_DAMPING)
    return rho * (z.abs() + BCNN_EPS) ** (rho - 1)


class _SignedPower(Differentiable):
    """sign(z) |z|^rho with a derivative that stays finite at zero."""

    @staticmethod
    def forward(z: Tensor, rho: float, mode: GradientMode) -> Tensor:
        return z.sign() * z.abs() ** rho

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        (z,) = ctx.saved_tensors
        return dy * _slope(z, *ctx.options), None, None

    @staticmethod
    def tangent(ctx: Any, dz: Tensor, *_: None) -> Tensor:
        (z,) = ctx.saved_tensors
        return dz * _slope(z, *ctx.options)


class _PowerNormalized(Differentiable):
    """E-PN of vectors (b, d) with rho = 1/2, given the output of the forward kernels."""

    @staticmethod
    def forward(z: Tensor, y: Tensor, sums: Tensor, mode: GradientMode, eps: float) -> Tensor:
        return y.view_as(y)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        z, _, sums, *ctx.options = inputs
        keep(ctx, z, sums)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        z, sums = ctx.saved_tensors
        mode, eps = ctx.options
        if torch.is_grad_enabled() or not is_eager_gradient(g):
            dz = gradient_of(lambda z: _power_normalized(z, 0.5, mode, eps), z, g)
        else:
            from covpool.kernels import power  # at first use: `import covpool` must not import triton

            dz = power.backward_eager(z, sums, g, eps, mode == "cbp")
        return dz, None, None, None, None

    @staticmethod
    def tangent(ctx: Any, dz: Tensor, *_: None) -> Tensor:
        z, _ = ctx.saved_tensors
        mode, eps = ctx.options
        v, dv = _SignedPower.forward(z, 0.5, mode), dz * _slope(z, 0.5, mode)
        length = torch.linalg.vector_norm(v, dim=-1, keepdim=True)
        along = (v * dv).sum(-1, keepdim=True) / one_if_zero(length) ** 2
        return (dv - torch.where(length > eps, along, 0) * v) / length.clamp(min=eps)


@full_precision
def signed_power(
    z: Tensor,  # (...)
    rho: float = 0.5,
    *,
    gradient: GradientMode = "bcnn",
) -> Tensor:  # (...)
    """sign(z) |z|^rho, element by element, with one of the published ways to keep its slope finite at zero.

    Args:
        z: Any tensor.
        rho: Exponent in (0, 1].
        gradient: "bcnn" (slope rho (|z| + 1e-8)^(rho - 1)), "cbp" (slope rho / (|z|^(1 - rho) + 0.1), damped),
            "bcnn_torch" ((relu(z) + 1e-5)^rho - (relu(-z) + 1e-5)^rho) or "fast_mpn" (sign(z) (|z| + 1e-8)^rho).

    Shape: any -> the same.

    Reference: Lin et al., "Bilinear CNN Models for Fine-grained Visual Recognition"; "cbp": Gao et al., "Compact
    Bilinear Pooling".

    >>> import torch
    >>> signed_power(torch.tensor([4., 0., -9.])).tolist()
    [2.0, 0.0, -3.0]
    """
    check_floating("z", z)
    check_choice("gradient", gradient, GRADIENT_MODES)
    if not 0 < rho <= 1:
        raise CovpoolError(f"`rho` must be in (0, 1]; got {rho}")
    if gradient == "bcnn_torch":
        return (z.relu() + BCNN_TORCH_EPS) ** rho - ((-z).relu() + BCNN_TORCH_EPS) ** rho
    if gradient == "fast_mpn":
        return z.sign() * (z.abs() + FAST_MPN_EPS) ** rho
    return _SignedPower.call(z, rho, gradient)


@full_precision
def elementwise_power_normalize(
    z: Tensor,  # (..., d)
    *,
    rho: float = 0.5,
    gradient: GradientMode = "bcnn",
    eps: float = 1e-12,
) -> Tensor:  # (..., d)
    """E-PN: y = sign(z) |z|^rho, then y / max(|y|_2, eps).

    Args:
        z: Vectors.
        rho: Exponent.
        gradient: How the slope at zero is kept finite, see `signed_power`.
        eps: Least divisor, in the unit of y. A shorter vector is not scaled to unit length, so zero stays zero.

    Shape: (..., d) -> (..., d).

    >>> import torch
    >>> elementwise_power_normalize(torch.tensor([0., -9., 16.])).tolist()
    [0.0, -0.6000000238418579, 0.800000011920929]
    """
    if rho == 0.5 and gradient in ("bcnn", "cbp") and z.ndim and _kernels_serve(z):
        from covpool.kernels import power  # at first use: `import covpool` must not import triton

        vectors = z.reshape(-1, z.shape[-1]).contiguous()
        y: Tensor = _PowerNormalized.call(vectors, *power.forward_eager(vectors, eps), gradient, eps)
        return y.reshape(z.shape)
    return _power_normalized(z, rho, gradient, eps)


def _power_normalized(z: Tensor, rho: float, gradient: GradientMode, eps: float) -> Tensor:
    return normalize(signed_power(z, rho, gradient=gradient), dim=-1, eps=eps)


def _kernels_serve(z: Tensor) -> bool:
    """Whether the kernels take these vectors. A compiler fuses torch's operations itself."""
    on_gpu = isinstance(z, Tensor) and z.is_cuda and z.dtype == torch.float32
    return on_gpu and z.shape[-1] <= LONGEST_VECTOR and is_eager(z) and largest_tile(z.device) > 0
