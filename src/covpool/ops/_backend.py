"""The choice between torch's own operations and covpool's kernels, as pure functions."""

import math
from typing import Literal

import torch
from torch import Tensor

from covpool._errors import CovpoolError
from covpool.kernels.gpu import MIN_SHARED_MEMORY, TRITON_INSTALLED, shared_memory
from covpool.kernels.precision import MOST_ITERATIONS, Precision, takes
from covpool.kernels.shape import LARGEST_BATCH, MOST_ROWS, padded, tile_of

Backend = Literal["torch", "triton"]

NEWER_SETTING = hasattr(torch.backends.cuda.matmul, "fp32_precision")  # torch 2.9 or later
LARGEST_ORDER = 1024  # a larger matrix fills the device by itself, and torch's products are as fast


def kernels_serve(x: Tensor, order: int, iterations: int = MOST_ITERATIONS, prenorm: str = "trace") -> bool:
    """Whether the kernels support a case: not float64, trace normalization, 3 to 7 iterations, order up to 1024.

    The GPU must support them too, and the batch and the positions must fit into one launch.

    Args:
        x: Features or matrices. The last two dimensions are one item.
        order: Order of the matrices.
        iterations: Number of iterations, if there are any.
        prenorm: Normalization before the iteration.
    """
    known = x.dtype != torch.float64 and prenorm == "trace"
    known = known and math.prod(x.shape[:-2]) <= LARGEST_BATCH and x.shape[-2] <= MOST_ROWS
    return known and takes(iterations) and order <= LARGEST_ORDER and shared_memory(x.device) >= MIN_SHARED_MEMORY


def choose_backend(asked: Backend | Literal["auto"], device_type: str, served: bool) -> Backend:
    """Choose the kernels on a GPU wherever they support the case. Requesting them for another case is an error."""
    if asked == "torch" or (asked == "auto" and not (served and device_type == "cuda" and TRITON_INSTALLED)):
        return "torch"
    if not served:
        raise CovpoolError(
            "backend 'triton' supports float32 and half precision, prenorm 'trace', "
            f"3 to {MOST_ITERATIONS} iterations and matrices up to order {LARGEST_ORDER}, on NVIDIA GPUs from compute "
            "capability 8.0 on (10 with torch 2.10, 11 with torch 2.12 or later); "
            "use backend='torch' or 'auto' for anything else"
        )
    return "triton"


def kernel_form(n: int, c: int) -> Literal["primal", "dual"]:
    """The cheaper form, counted in whole tiles: dual where the n x n matrix has fewer."""
    return "dual" if padded(n, tile_of(n)) < padded(c, tile_of(c)) else "primal"


def matmul_precision(like: Tensor, asked: Precision | None) -> Precision:
    """The requested precision; by default TF32 inside autocast or where torch's setting allows it, else float32.

    Call this before leaving autocast.
    """
    if asked is not None:
        return asked
    kind = like.device.type
    inside = kind != "meta" and torch.is_autocast_enabled(kind)
    return "tf32" if inside or tf32_allowed() else "float32"


def tf32_allowed() -> bool:
    """Whether torch is set to use TF32 for products on a GPU.

    Torch raises an error if its older setting is read after the newer one was set.
    """
    settings = torch.backends.cuda.matmul
    if NEWER_SETTING:
        return bool(settings.fp32_precision == "tf32")
    return bool(settings.allow_tf32)


# The effect of torch.compiler.assume_constant_result. Importing the compiler would take a second and import triton.
tf32_allowed._dynamo_marked_constant = True  # type: ignore[attr-defined]


def exporting() -> bool:
    """Whether torch.export is tracing. Some releases of torch report that while compiling too."""
    return torch.compiler.is_exporting() and not torch.compiler.is_dynamo_compiling()
