"""Batched eigen-decomposition of symmetric matrices, with NaN eigenvalues for non-finite input."""

from typing import Literal

import torch
from torch import Tensor

from covpool.ops._backend import exporting

EighSolver = Literal["batched", "torch"]


SMALLEST_BATCHED = 32  # on a CPU; smaller matrices take less time than dividing them among threads


def choose_solver(device_type: str, c: int, exported: bool) -> EighSolver:
    """The batched solver on a GPU and for larger matrices on a CPU, where torch's takes one after another."""
    batched = device_type == "cuda" or (device_type == "cpu" and c >= SMALLEST_BATCHED)
    return "batched" if batched and not exported else "torch"


def eigh(
    a: Tensor,  # (..., c, c), symmetric
) -> tuple[Tensor, Tensor]:  # (..., c) ascending, (..., c, c)
    """Eigenvalues in ascending order and eigenvectors in columns.

    A matrix that contains NaN or inf gets NaN eigenvalues. The fault stays visible in its own batch item, and the rest
    of the batch does not fail with the solver's convergence error.
    """
    finite = (a * 0).sum((-2, -1), keepdim=True) == 0
    eigenvalues, u = _decompose(torch.where(finite, a, 0))
    return torch.where(finite.squeeze(-1), eigenvalues, torch.nan), u


def _decompose(a: Tensor) -> tuple[Tensor, Tensor]:
    if choose_solver(a.device.type, a.shape[-1], exporting()) == "torch":
        eigenvalues, u = torch.linalg.eigh(a)
        return eigenvalues, u
    from covpool.kernels.eigh import eigh_batched  # at first use: `import covpool` must not touch other libraries

    eigenvalues, u = eigh_batched(a.reshape(-1, *a.shape[-2:]))
    return eigenvalues.reshape(a.shape[:-1]), u.reshape(a.shape)
