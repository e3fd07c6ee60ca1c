"""Fourier transforms of tensor sketches, pooled over positions; pooling commutes with the inverse transform.

A count sketch adds the channels of each bucket, psi(x)_k = sum_{h(i) = k} s(i) x_i. The spectrum of the tensor sketch
of order j is the product T_1 ... T_j of the spectra of the first j count sketches.
"""

import math
from typing import Any

import torch
from torch import Tensor

from covpool.kernels import largest_tile
from covpool.kernels.shape import LARGEST_BATCH
from covpool.ops._autograd import (
    Differentiable,
    gradient_of,
    in_forward_mode,
    is_eager,
    is_eager_gradient,
    keep,
    needs_derivative,
)

MOST_SKETCHES = 4  # that the kernels take


class _SpectraByKernels(Differentiable):
    """The pooled spectra, given by the forward kernels with the transforms z. Second derivatives go through torch's."""

    @staticmethod
    def forward(
        x: Tensor, w: Tensor | None, hashes: Tensor, signs: Tensor, pooled: Tensor, z: Tensor, size: int
    ) -> Tensor:
        return pooled.view_as(pooled)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, w, hashes, signs, _, z, ctx.size = inputs
        keep(ctx, x, w, hashes, signs, z)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, w, hashes, signs, z = ctx.saved_tensors
        if torch.is_grad_enabled() or not is_eager_gradient(g):
            dx = gradient_of(lambda x: _by_torch(x, w, hashes, signs, ctx.size), x, g)
        else:
            from covpool.kernels import sketch  # at first use: `import covpool` must not import triton

            dx = sketch.backward(x, w, z, g, hashes, signs, ctx.size)
        return dx, *[None] * 6


def pooled_spectra(
    x: Tensor,  # (..., n, c)
    w: Tensor | None,  # (..., n), sums to one
    hashes: Tensor,  # (p, c) int64
    signs: Tensor,  # (p, c)
    size: int,
) -> Tensor:  # (..., p, size // 2 + 1), complex
    """The weighted sums over positions of T_1, T_1 T_2, ..., T_1 ... T_p."""
    signs = signs.to(x.dtype)
    if not _kernels_serve(x, w, hashes, signs):
        return _by_torch(x, w, hashes, signs, size)
    from covpool.kernels import sketch  # at first use: `import covpool` must not import triton

    x, w = x.resolve_neg(), None if w is None else w.resolve_neg()  # kernels see memory without torch's sign
    rows, weights = x.reshape(-1, *x.shape[-2:]), None if w is None else w.reshape(-1, w.shape[-1])
    pooled, z = sketch.forward(rows.detach(), weights, hashes, signs, size)
    if needs_derivative(rows, None):
        pooled = _SpectraByKernels.apply(rows, weights, hashes, signs, pooled, z, size)
    return pooled.reshape(*x.shape[:-2], *pooled.shape[1:])


def _kernels_serve(x: Tensor, w: Tensor | None, hashes: Tensor, signs: Tensor) -> bool:
    """Whether the kernels take these features, and give every derivative that may be asked for."""
    known = x.is_cuda and x.dtype == torch.float32 and x.numel() > 0 and 1 <= len(hashes) <= MOST_SKETCHES
    known = known and math.prod(x.shape[:-2]) <= LARGEST_BATCH
    if not known or in_forward_mode() or not is_eager(x, w, hashes, signs):
        return False
    return not (signs.requires_grad or (w is not None and w.requires_grad)) and largest_tile(x.device) > 0


def _by_torch(x: Tensor, w: Tensor | None, hashes: Tensor, signs: Tensor, size: int) -> Tensor:
    transforms = [_rfft(add_to_buckets(xs, h, size)) for xs, h in zip(signed(x, w, signs), hashes, strict=True)]
    pooled, powers = [transforms[0].sum(-2)], transforms[0]
    for transform in transforms[1:]:
        powers = powers * transform
        pooled.append(powers.sum(-2))
    return torch.stack(pooled, -2)


def signed(
    x: Tensor,  # (..., n, c)
    w: Tensor | None,  # (..., n), sums to one
    signs: Tensor,  # (p, c)
) -> list[Tensor]:  # p of (..., n, c)
    """x times the signs of each count sketch, the first one times the weights too, so that pooling is a sum."""
    weighted = x / x.shape[-2] if w is None else x * w.unsqueeze(-1)
    first, *others = signs.to(x.dtype)
    return [weighted * first, *(x * s for s in others)]


def _rfft(x: Tensor) -> Tensor:  # (..., m) -> (..., m // 2 + 1)
    """The Fourier transform, also of an empty batch, which torch 2.8 refuses on the CPU."""
    if x.numel() == 0:
        return torch.complex(x, x)[..., : x.shape[-1] // 2 + 1]
    return torch.fft.rfft(x)


def add_to_buckets(
    values: Tensor,  # (..., k)
    buckets: Tensor,  # (k,)
    size: int,
) -> Tensor:  # (..., size)
    """The sum of the values that fall into each bucket."""
    # scatter_add instead of index_add, whose CPU code loops over the index
    return values.new_zeros(*values.shape[:-1], size).scatter_add(-1, buckets.expand(values.shape), values)
