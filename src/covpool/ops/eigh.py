"""Eigen-decomposition of symmetric matrices for everything spectral: batched, and honest about non-finite input."""

from typing import Literal

import torch
from torch import Tensor

from covpool.ops._backend import exporting

EighSolver = Literal["batched", "torch"]


def choose_solver(device_type: str, exported: bool) -> EighSolver:
    """Torch's own loops over the batch on a GPU; an exported graph keeps to operations that others know."""
    return "batched" if device_type == "cuda" and not exported else "torch"


def eigh(
    a: Tensor,  # (..., c, c), symmetric
) -> tuple[Tensor, Tensor]:  # (..., c) ascending, (..., c, c)
    """Eigenvalues in ascending order and eigenvectors in columns.

    A matrix with NaN or inf in it gets NaN eigenvalues, so that the fault stays visible in its own batch item and does
    not end the whole batch in the solver's convergence error.
    """
    finite = (a * 0).sum((-2, -1), keepdim=True) == 0
    eigenvalues, u = _decompose(torch.where(finite, a, 0))
    return torch.where(finite.squeeze(-1), eigenvalues, torch.nan), u


def _decompose(a: Tensor) -> tuple[Tensor, Tensor]:
    if choose_solver(a.device.type, exporting()) == "torch":
        eigenvalues, u = torch.linalg.eigh(a)
        return eigenvalues, u
    from covpool.kernels.eigh import eigh_batched  # at first use: `import covpool` must not touch the GPU's libraries

    eigenvalues, u = eigh_batched(a.reshape(-1, *a.shape[-2:]))
    return eigenvalues.reshape(a.shape[:-1]), u.reshape(a.shape)
