"""Eigen-decomposition of a whole batch of symmetric matrices on the CPU, one matrix per thread.

torch.linalg.eigh solves the matrices one after another and lets all threads work on each, so they wait for each other
thousands of times. Here every thread solves whole matrices. LAPACK and the threads are those that torch has loaded:
threads of our own would compete with torch's, which keep spinning after an operation.
"""

import ctypes
import functools
import threading
from collections.abc import Callable, Iterator
from ctypes import byref, c_char, c_int, c_uint, c_void_p
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

SOLVERS = {torch.float32: "ssyevd_", torch.float64: "dsyevd_"}
# With fewer, starting the threads takes longer than they save (measured with 2 threads, order 32 and more).
FEWEST_ELEMENTS = 8192
ARGUMENTS = 11  # jobz, uplo, n, a, lda, eigenvalues, work, lwork, iwork, liwork, info
VECTORS, LOWER = c_char(b"V"), c_char(b"L")
QUERY = c_int(-1)  # as the length of a workspace: write the best length into it
Solver = Callable[..., None]
Body = ctypes.CFUNCTYPE(None, c_void_p)  # what every thread runs


class Scratch(NamedTuple):
    """What LAPACK needs beside a matrix, for one thread."""

    work: Tensor
    integers: Tensor


def serves(a: Tensor) -> bool:
    """Whether these matrices (b, c, c) can be divided among threads, and whether that takes less time."""
    if a.device.type != "cpu" or len(a) < 2 or torch.get_num_threads() < 2:
        return False
    return a.numel() >= FEWEST_ELEMENTS and _library() is not None


@functools.cache
def _library() -> ctypes.CDLL | None:
    """torch's CPU library with MKL and OpenMP in it; None where it has others, which may not allow this."""
    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    if not torch.backends.mkl.is_available() or not path.exists():
        return None
    library = ctypes.CDLL(str(path))
    try:
        for name in SOLVERS.values():
            getattr(library, name).argtypes = (c_void_p,) * ARGUMENTS
            getattr(library, name).restype = None
        library.GOMP_parallel.argtypes = (Body, c_void_p, c_uint, c_uint)
        library.GOMP_parallel.restype = None
    except AttributeError:
        return None
    return library


def eigh_by_threads(
    a: Tensor,  # (b, c, c), symmetric
) -> tuple[Tensor, Tensor]:  # (b, c) ascending, (b, c, c)
    """Eigenvalues in ascending order and eigenvectors in columns; NaN eigenvalues where LAPACK fails."""
    library = _library()
    assert library is not None
    solver = getattr(library, SOLVERS[a.dtype])
    u = a.mT.clone(memory_format=torch.contiguous_format)  # column by column, as LAPACK expects it
    eigenvalues = a.new_empty(a.shape[:-1])
    threads = min(torch.get_num_threads(), len(a))
    spaces = _workspaces(solver, u, eigenvalues, threads)
    failed: list[int] = []
    matrices = iter(range(len(a)))
    _in_parallel(library, threads, lambda: _solve(solver, matrices, u, eigenvalues, spaces.pop(), failed))
    eigenvalues[failed] = torch.nan
    return eigenvalues, u.mT


def _solve(
    solver: Solver, matrices: Iterator[int], u: Tensor, eigenvalues: Tensor, space: Scratch, failed: list[int]
) -> None:
    """Replace matrices by their eigenvectors, until none is left."""
    c = c_int(u.shape[-1])
    info = c_int()
    lengths = [c_int(part.numel()) for part in space]
    bytes_per_row = u.shape[-1] * u.element_size()
    for i in matrices:
        solver(
            byref(VECTORS), byref(LOWER), byref(c), u.data_ptr() + i * u.shape[-1] * bytes_per_row, byref(c),
            eigenvalues.data_ptr() + i * bytes_per_row, space.work.data_ptr(), byref(lengths[0]),
            space.integers.data_ptr(), byref(lengths[1]), byref(info),
        )  # fmt: skip
        if info.value:
            failed.append(i)


def _workspaces(solver: Solver, u: Tensor, eigenvalues: Tensor, threads: int) -> list[Scratch]:
    """One workspace per thread, of the length that LAPACK asks for."""
    c, info, integers = c_int(u.shape[-1]), c_int(), c_int()
    work = u.new_empty(1)
    solver(
        byref(VECTORS), byref(LOWER), byref(c), u.data_ptr(), byref(c), eigenvalues.data_ptr(),
        work.data_ptr(), byref(QUERY), byref(integers), byref(QUERY), byref(info),
    )  # fmt: skip
    return [Scratch(u.new_empty(int(work)), torch.empty(integers.value, dtype=torch.int32)) for _ in range(threads)]


def _in_parallel(library: ctypes.CDLL, threads: int, task: Callable[[], None]) -> None:
    """Run a task in each of torch's threads, the calling one among them, and raise the first error of any."""
    errors: list[BaseException] = []
    ended: list[int] = []

    def run(_: int | None) -> None:
        try:
            task()
        except BaseException as error:  # a KeyboardInterrupt too: C code cannot pass it on
            errors.append(error)
        ended.append(threading.get_ident())

    library.GOMP_parallel(Body(run), None, threads, 0)
    if errors:
        raise errors[0]
    if threading.get_ident() not in ended:  # Ctrl-C while `run` was being entered, where ctypes discards the error
        raise KeyboardInterrupt
