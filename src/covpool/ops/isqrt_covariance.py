"""The Newton-Schulz root of the covariance of features, in the cheapest of three equal forms."""

from typing import Any, Literal

import torch
from torch import Tensor

from covpool._check_tensors import check_features
from covpool._errors import CovpoolError, check_choice
from covpool.kernels.precision import PRECISIONS, Precision
from covpool.ops._backend import Backend, choose_backend, exporting, kernel_form, kernels_serve, matmul_precision
from covpool.ops._isqrt_forms import decompose, normalized, scaled, smaller
from covpool.ops._isqrt_functions import ByEigenvalues, ByKernels, ByPolynomial
from covpool.ops.covariance import covariance
from covpool.ops.positions import keep_positions
from covpool.ops.precision import at_least_float32, outside_autocast
from covpool.ops.sqrtm_newton_schulz import (
    MOST_FLOAT32_ITERATIONS,
    Prenorm,
    check_iteration,
    sqrtm_newton_schulz,
)
from covpool.ops.vech import from_triangle, vech

IsqrtForm = Literal["primal", "dual", "spectral"]


# On a CPU the eigenvalues cost as much as the iterations where order times iterations is about this (measured, 2
# cores).
SPECTRAL_FROM = 280


def choose_isqrt_form(n: int, c: int, iterations: int, device_type: str, backend: Backend) -> IsqrtForm:
    """The cheapest form for n positions and c channels: spectral on a CPU except for small matrices.

    Many iterations use the spectral form on a CPU at any size, because it does not lose accuracy with them.
    """
    if backend == "triton":
        return kernel_form(n, c)
    many = iterations > MOST_FLOAT32_ITERATIONS or min(n, c) * iterations > SPECTRAL_FROM
    return "spectral" if device_type == "cpu" and many else smaller(n, c)


def isqrt_covariance(
    x: Tensor,  # (..., n, c)
    *,
    iterations: int = 5,
    prenorm: Prenorm = "trace",
    postcomp: bool = True,
    mask: Tensor | None = None,  # (..., n) bool, True = keep
    weights: Tensor | None = None,  # (..., n)
    form: IsqrtForm | Literal["auto"] = "auto",
    backend: Backend | Literal["auto"] = "auto",
    precision: Precision | None = None,
    vectorize: bool = False,
) -> Tensor:  # (..., c, c) or (..., c (c + 1) / 2)
    """The Newton-Schulz square root of the covariance of features: sqrtm_newton_schulz(covariance(x)), faster.

    Args:
        x: Features, one row per position.
        iterations, prenorm, postcomp: See `sqrtm_newton_schulz`.
        mask, weights: See `covariance`.
        form: "primal" iterates on c x c matrices, "dual" on n x n ones, "spectral" goes through the eigenvalues of the
            smaller; all give the same result, and "auto" takes the cheapest. Only "primal" has a derivative in the
            weights ("auto" chooses it for weights that require grad).
        backend: "torch" uses torch's operations and "triton" the GPU kernels; "auto" uses the kernels where they apply.
        precision: Lowest precision allowed in the products of the kernels: "float32", "tf32" (10 bits of mantissa) or
            "bf16". By default "tf32" inside autocast or where torch.set_float32_matmul_precision allows it, else
            "float32".
        vectorize: Return the upper triangle as `vech` does, which the kernels write directly.

    Shape: (..., n, c) -> (..., c, c), or (..., c (c + 1) / 2) with `vectorize`.

    Reference: "Deep CNNs Meet Global Covariance Pooling", iSQRT-COV; the dual and spectral forms are ours.

    >>> import torch
    >>> x = torch.randn(2, 49, 64, dtype=torch.float64)
    >>> z = isqrt_covariance(x, form="dual")
    >>> torch.allclose(z, sqrtm_newton_schulz(covariance(x)))
    True
    """
    check_features(x)
    check_choice("form", form, ("auto", "primal", "dual", "spectral"))
    check_choice("backend", backend, ("auto", "torch", "triton"))
    check_choice("precision", precision, (None, *PRECISIONS))
    if weights is not None and weights.requires_grad and form in ("dual", "spectral"):
        raise CovpoolError(f"`form` must be 'primal' or 'auto' for weights that require grad; got {form!r}")
    product_precision = matmul_precision(x, precision)  # depends on autocast, so it comes before leaving it
    if _is_plain(weights, form):
        with outside_autocast(x):
            sigma = covariance(x, mask=mask, weights=weights)
            z = sqrtm_newton_schulz(
                sigma,
                iterations=iterations,
                prenorm=prenorm,
                postcomp=postcomp,
                backend=backend,
                precision=product_precision,
            )
        return vech(z) if vectorize else z
    n, c = x.shape[-2:]
    order = {"auto": min(n, c), "primal": c, "dual": n}.get(form)
    served = order is not None and kernels_serve(x, order, iterations, prenorm)
    chosen_backend = choose_backend(backend, x.device.type, served)
    chosen = choose_isqrt_form(n, c, iterations, x.device.type, chosen_backend) if form == "auto" else form
    check_iteration(iterations, prenorm, torch.float64 if chosen == "spectral" else x.dtype)
    if chosen_backend == "torch":
        x = at_least_float32(x)
    x, w = keep_positions(x, mask, weights, torch.promote_types(x.dtype, torch.float32))
    lead = x.shape[:-2]
    if len(lead) != 1:  # a view that changes nothing takes as long as a launch, and again in the backward pass
        x, w = x.reshape(-1, n, c), None if w is None else w.reshape(-1, n)
    if chosen_backend == "triton":
        z = _by_kernels(x, w, chosen, iterations, postcomp, product_precision)
        z = z if vectorize else from_triangle(z, c)
    else:
        with outside_autocast(x):
            z = _by_torch(x, w, chosen, iterations, prenorm, postcomp)
        z = vech(z) if vectorize else z
    return z if len(lead) == 1 else z.reshape(*lead, *z.shape[1:])


def _by_torch(x: Tensor, w: Tensor | None, form: IsqrtForm, *options: Any) -> Tensor:
    """The matrix by torch's operations."""
    if form == "spectral":
        k, t = normalized(scaled(x.detach(), None if w is None else w.detach()), options[1])
        return ByEigenvalues.call(x, w, *decompose(k), t, *options)
    return ByPolynomial.call(x, w, form, *options)


def _by_kernels(x: Tensor, w: Tensor | None, *options: Any) -> Tensor:
    """The triangle by the kernels, which accept half-precision features."""
    from covpool.kernels import isqrt  # at first use: `import covpool` must not import triton

    return ByKernels.by(isqrt, x, w, *options)


def _is_plain(weights: Tensor | None, form: str) -> bool:
    """Whether to go through the covariance itself: for a derivative in the weights, and for export."""
    # vmap and jvp hide requires_grad, so form="primal" with weights always takes this way
    differentiated = weights is not None and (weights.requires_grad or form == "primal")
    return differentiated or exporting()
