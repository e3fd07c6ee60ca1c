"""Eigen-decomposition of symmetric matrices for everything spectral: batched, and honest about non-finite input."""

import torch
from torch import Tensor


def eigh(
    a: Tensor,  # (..., c, c), symmetric
) -> tuple[Tensor, Tensor]:  # (..., c) ascending, (..., c, c)
    """Eigenvalues in ascending order and eigenvectors in columns.

    A matrix with NaN or inf in it gets NaN eigenvalues, so that the fault stays visible in its own batch item and does
    not end the whole batch in the solver's convergence error.
    """
    finite = (a * 0).sum((-2, -1), keepdim=True) == 0
    eigenvalues, u = torch.linalg.eigh(torch.where(finite, a, 0))
    return torch.where(finite.squeeze(-1), eigenvalues, torch.nan), u
