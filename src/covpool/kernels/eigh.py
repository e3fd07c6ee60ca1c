"""Eigen-decomposition of a whole batch of symmetric matrices: on the GPU in one call of cuSOLVER, else by threads.

On the GPU torch.linalg.eigh solves the matrices one after another. `cusolverDnXsyevBatched` solves them together. It is
called from the copy of cuSOLVER that torch has loaded, on torch's memory and stream.
"""

import ctypes
import functools
import logging
import os
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from ctypes import POINTER, byref, c_int, c_int64, c_size_t, c_void_p
from typing import Any, NamedTuple

import torch
from torch import Tensor

from covpool.kernels import eigh_threads
from covpool.kernels.operation import fold_vmap

logger = logging.getLogger("covpool")

SONAMES = ("libcusolver.so.12", "libcusolver.so.11")  # CUDA 13 and 12
VECTORS, LOWER = 1, 0  # CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER
DATA_TYPES = {torch.float32: 0, torch.float64: 1}  # CUDA_R_32F, CUDA_R_64F

_PROBLEM = (c_void_p, c_void_p, c_int, c_int, c_int64)  # handle, parameters, vectors, triangle, order
_MATRICES = (c_int, c_void_p, c_int64, c_int, c_void_p, c_int)  # type, a, leading dimension, type, eigenvalues, type
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cusolverDnCreate": (POINTER(c_void_p),),
    "cusolverDnCreateParams": (POINTER(c_void_p),),
    "cusolverDnSetStream": (c_void_p, c_void_p),
    "cusolverDnXsyevBatched_bufferSize": (
        *_PROBLEM, *_MATRICES, POINTER(c_size_t), POINTER(c_size_t), c_int64,
    ),
    "cusolverDnXsyevBatched": (
        *_PROBLEM, *_MATRICES, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p, c_int64,
    ),
}  # fmt: skip
STATUS = (
    *("SUCCESS", "NOT_INITIALIZED", "ALLOC_FAILED", "INVALID_VALUE", "ARCH_MISMATCH", "MAPPING_ERROR"),
    *("EXECUTION_FAILED", "INTERNAL_ERROR", "MATRIX_TYPE_NOT_SUPPORTED", "NOT_SUPPORTED"),
)


class Handle(NamedTuple):
    """The state of cuSOLVER for one caller at a time, with its default parameters."""

    handle: c_void_p
    parameters: c_void_p


# Idle handles, by device. A call takes one and returns it, so that short-lived threads neither share nor leak handles.
_idle: dict[int, list[Handle]] = defaultdict(list)


# --- the library ----------------------------------------------------------------------------------


def available() -> bool:
    """Whether CUDA and a cuSOLVER with the batched solver are present. Initializes the GPU."""
    return _library() is not None


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The cuSOLVER that torch has loaded, with argument types set; None if it lacks one of the functions."""
    if not torch.cuda.is_available():
        return None
    with ThreadPoolExecutor(1) as outside:  # a new thread is free of the caller's fake tensors and other modes
        outside.submit(_load_torchs_solvers, torch.cuda.current_device()).result()
    for name in SONAMES:
        try:
            library = ctypes.CDLL(name, mode=os.RTLD_NOLOAD)
            for function, arguments in SIGNATURES.items():
                getattr(library, function).argtypes = arguments
        except (OSError, AttributeError):
            continue
        return library
    logger.warning(
        "the cuSOLVER of this torch (CUDA %s) has no cusolverDnXsyevBatched: torch.linalg.eigh is used on the GPU, "
        "which gives the same result more slowly; install torch for CUDA 12.6 or later",
        torch.version.cuda,
    )
    return None


def _load_torchs_solvers(device: int) -> None:
    """Make torch load its linear algebra, and cuSOLVER with it, which it does at first use."""
    torch.linalg.eigh(torch.ones(1, 1, device=f"cuda:{device}"))


def _call(function: str, *arguments: Any) -> None:
    """Call a function of cuSOLVER; raise if its status is not success."""
    status = getattr(_library(), function)(*arguments)
    if status != 0:
        name = f"CUSOLVER_STATUS_{STATUS[status]}" if status < len(STATUS) else "an unknown status"
        raise RuntimeError(f"{function} returned {name} ({status})")


def _take_handle(device: int) -> Handle:
    try:
        return _idle[device].pop()
    except IndexError:
        taken = Handle(c_void_p(), c_void_p())
        _call("cusolverDnCreate", byref(taken.handle))
        _call("cusolverDnCreateParams", byref(taken.parameters))
        return taken


# --- the operation --------------------------------------------------------------------------------


@torch.library.custom_op("covpool::eigh_batched", mutates_args=())
def eigh_batched(
    a: Tensor,  # (b, c, c), symmetric, float32 or float64
) -> tuple[Tensor, Tensor]:  # (b, c) ascending, (b, c, c)
    """Eigenvalues in ascending order and eigenvectors in columns, without a derivative and without waiting for the GPU.

    A matrix on which the solver fails gets NaN eigenvalues. The first call on a device creates cuSOLVER's handle, so
    call it once before capturing a CUDA graph. Without a batched solver, torch.linalg.eigh is used.
    """
    if eigh_threads.serves(a):
        return eigh_threads.eigh_by_threads(a)
    with torch.cuda.device_of(a):  # does nothing for a CPU tensor
        if a.is_cuda and available():
            return _on_gpu(a)
    eigenvalues, u = torch.linalg.eigh(a)
    return eigenvalues, u


def _on_gpu(a: Tensor) -> tuple[Tensor, Tensor]:
    u = a.clone(memory_format=torch.contiguous_format)  # row-major or column-major is the same for a symmetric matrix
    eigenvalues = a.new_empty(a.shape[:-1])
    failed = a.new_zeros(len(a), dtype=torch.int32)
    if a.numel():
        handle = _take_handle(a.device.index)
        try:
            _solve(handle, u, eigenvalues, failed)
        finally:
            _idle[a.device.index].append(handle)
    return torch.where(failed.unsqueeze(-1) == 0, eigenvalues, torch.nan), u.mT


def _solve(handle: Handle, a: Tensor, eigenvalues: Tensor, failed: Tensor) -> None:
    """Replace a by its eigenvectors, one per row, and fill in the eigenvalues and the failures."""
    b, c, _ = a.shape
    kind = DATA_TYPES[a.dtype]
    problem = (*handle, VECTORS, LOWER, c, kind, a.data_ptr(), c, kind, eigenvalues.data_ptr(), kind)
    on_device, on_host = c_size_t(), c_size_t()
    _call("cusolverDnSetStream", handle.handle, torch.cuda.current_stream().cuda_stream)
    _call("cusolverDnXsyevBatched_bufferSize", *problem, byref(on_device), byref(on_host), b)
    device_space = a.new_empty(on_device.value, dtype=torch.uint8)
    host_space = ctypes.create_string_buffer(on_host.value)
    _call(
        "cusolverDnXsyevBatched", *problem, device_space.data_ptr(), on_device,
        ctypes.cast(host_space, c_void_p), on_host, failed.data_ptr(), b,
    )  # fmt: skip


@eigh_batched.register_fake
def _shapes(a: Tensor) -> tuple[Tensor, Tensor]:
    return a.new_empty(a.shape[:-1]), a.new_empty(a.shape).mT


fold_vmap(eigh_batched)
