"""Slow, simple versions of the operations, with which tests compare the fast ones.

They treat one matrix at a time where that is clearer, and work in float64 where they use another method. They share no
code with the fast versions.
"""

from typing import Any

import torch
from torch import Tensor

from covpool.ops.reference import isqrt_iterated as isqrt_iterated
from covpool.ops.reference import isqrt_literal as isqrt_literal


def covariance(x: Tensor, weights: Tensor | None = None, centered: bool = True) -> Tensor:
    """Sum over positions of w_i (x_i - mean)(x_i - mean)^T, term by term, for x (n, c)."""
    n, c = x.shape
    w = torch.full((n,), 1 / n, dtype=x.dtype) if weights is None else weights / weights.sum()
    mean = (
        sum((w[i] * x[i] for i in range(n)), torch.zeros(c, dtype=x.dtype))
        if centered
        else torch.zeros(c, dtype=x.dtype)
    )
    return sum((w[i] * torch.outer(x[i] - mean, x[i] - mean) for i in range(n)), torch.zeros(c, c, dtype=x.dtype))


def spectral(a: Tensor, f: Any) -> Tensor:
    """U diag(f(l_1), ..., f(l_c)) U^T for one symmetric matrix and a scalar function f."""
    eigenvalues, u = torch.linalg.eigh(a.double())
    values = torch.tensor([float(f(value)) for value in eigenvalues.tolist()], dtype=torch.float64)
    return (u @ torch.diag(values) @ u.T).to(a.dtype)


def power(a: Tensor, alpha: float) -> Tensor:
    """a^alpha of one positive semi-definite matrix; eigenvalues within round-off of zero count as zero."""
    tolerance = a.shape[-1] * torch.finfo(a.dtype).eps * float(torch.linalg.matrix_norm(a.double(), 2))
    return spectral(a, lambda value: value**alpha if value > tolerance else 0.0)


def isqrt_spectral(a: Tensor, iterations: int, prenorm: str = "trace", postcomp: bool = True) -> Tensor:
    """The exact spectral form of N Newton-Schulz steps: sqrt(l) x_N with x_0 = sqrt(l / t), x <- x (3 - x^2) / 2."""
    t = float(a.trace() if prenorm == "trace" else torch.linalg.matrix_norm(a))

    def scalar(value: float) -> float:
        root = max(value / t, 0.0) ** 0.5
        x = root
        for _ in range(iterations):
            x = x * (3 - x * x) / 2
        return root * x * (t**0.5 if postcomp else 1.0)

    return spectral(a, scalar)
