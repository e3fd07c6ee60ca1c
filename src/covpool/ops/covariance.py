"""The covariance of features over their positions."""

from typing import Any, Literal

import torch
from torch import Tensor

from covpool._check_tensors import check_features
from covpool._errors import check_choice
from covpool.kernels.precision import PRECISIONS, Precision
from covpool.ops._autograd import OfKernels, beyond_kernels, is_eager, keep
from covpool.ops._backend import Backend, choose_backend, exporting, kernels_serve, matmul_precision
from covpool.ops.elementary import symmetrize
from covpool.ops.positions import center, keep_positions
from covpool.ops.precision import full_precision, outside_autocast, product
from covpool.ops.vech import from_triangle, vech


class _ByKernels(OfKernels):
    """The covariance or its triangle.

    Second derivatives, the tangent and the derivative in the weights go through torch's operations.
    """

    @staticmethod
    def forward(
        x: Tensor, w: Tensor | None, z: Tensor, mean: Tensor, squares: Tensor,
        centered: bool, full: bool, precision: str,
    ) -> Tensor:  # fmt: skip
        return z.view_as(z)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, w, _, mean, squares, *ctx.options = inputs
        keep(ctx, x, w, mean, squares)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, w, mean, squares = ctx.saved_tensors
        centered, full, precision = ctx.options
        again = beyond_kernels(g)
        dx = dw = None
        if ctx.needs_input_grad[0] and not again:
            from covpool.kernels import covariance as kernels  # at first use: `import covpool` must not import triton

            run = kernels.backward_eager if is_eager(x, w, mean, squares, g) else kernels.backward
            dx = run(x, w, mean, squares, g, full, precision)
        if again or ctx.needs_input_grad[1]:
            with outside_autocast(g):
                xc = center(x, w, centered)
                xs = product(xc, symmetrize(g if full else torch.triu(from_triangle(g, x.shape[-1]))))
                dx = 2 * _weighted(xs, w) if again else dx
                dw = (xs * xc).sum(-1) if ctx.needs_input_grad[1] else None
        return dx, dw, *[None] * 6

    @staticmethod
    def tangent(ctx: Any, dx: Tensor | None, dw: Tensor | None, *_: None) -> Tensor:
        x, w, *_ = ctx.saved_tensors
        centered, full, _ = ctx.options
        xc = center(x, w, centered)
        dz = torch.zeros_like(product(xc.mT, xc.clone()))
        if dx is not None:
            dz = dz + 2 * symmetrize(product(xc.mT, _weighted(dx, w)))
        if dw is not None:
            dz = dz + symmetrize(product(xc.mT, xc * dw.unsqueeze(-1)))
        return dz if full else vech(dz)


def _weighted(x: Tensor, w: Tensor | None) -> Tensor:
    return x / x.shape[-2] if w is None else x * w.unsqueeze(-1)


@full_precision
def covariance(
    x: Tensor,  # (..., n, c)
    *,
    mask: Tensor | None = None,  # (..., n) bool, True = keep
    weights: Tensor | None = None,  # (..., n)
    centered: bool = True,
    backend: Backend | Literal["auto"] = "auto",
    precision: Precision | None = None,
    vectorize: bool = False,
) -> Tensor:  # (..., c, c) or (..., c (c + 1) / 2)
    """The biased covariance over positions, sum_i w_i (x_i - mean)(x_i - mean)^T with weights that sum to one.

    The mean is subtracted before the product, so large means cost no accuracy and no n x n matrix is formed.

    Args:
        x: Features, one row per position.
        mask: Positions to keep. Values at other positions, NaN included, have no effect. An empty mask gives zeros.
        weights: A weight for each position. They are normalized to sum to one, and are uniform by default.
        centered: False gives the second moment about zero.
        backend: "torch" uses torch's operations and "triton" the GPU kernels; "auto" uses the kernels where they apply.
        precision: Lowest precision allowed in the products of the kernels, see `isqrt_covariance`. By default "tf32"
            where torch.set_float32_matmul_precision allows it, else "float32".
        vectorize: Return the upper triangle as `vech` does, which the kernels write directly.

    Shape: (..., n, c) -> (..., c, c), symmetric, or (..., c (c + 1) / 2) with `vectorize`.

    Reference: "Deep CNNs Meet Global Covariance Pooling", Sigma = X J X^T.

    >>> import torch
    >>> covariance(torch.tensor([[1., 0.], [-1., 0.]])).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    check_features(x)
    check_choice("backend", backend, ("auto", "torch", "triton"))
    check_choice("precision", precision, (None, *PRECISIONS))
    n, c = x.shape[-2:]
    x, w = keep_positions(x, mask, weights)
    served = not exporting() and kernels_serve(x, c)
    if choose_backend(backend, x.device.type, served) == "torch":
        xc = center(x, w, centered)
        z = symmetrize(product(xc.mT, _weighted(xc, w)))
        return vech(z) if vectorize else z
    lead = x.shape[:-2]
    if len(lead) != 1:  # a view takes as long as a launch, forward and backward
        x, w = x.reshape(-1, n, c), None if w is None else w.reshape(-1, n)
    z = _by_kernels(x, w, centered, not vectorize, matmul_precision(x, precision))
    return z if len(lead) == 1 else z.reshape(*lead, *z.shape[1:])


def _by_kernels(x: Tensor, w: Tensor | None, *options: Any) -> Tensor:
    from covpool.kernels import covariance as kernels  # at first use: `import covpool` must not import triton

    return _ByKernels.by(kernels, x, w, *options)
