"""Hard inputs by name, as real networks produce them and simple code fails on."""

import torch
from torch import Tensor

CHANNELS = (1, 2, 3, 63, 64, 130)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def features(b: int, n: int, c: int, *, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    """Random features (b, n, c)."""
    return torch.randn(b, n, c, dtype=dtype, generator=generator(seed))


def hard_features(c: int = 16, *, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """Features (2, n, c) on which every pool must give finite values and gradients."""
    relu = features(2, 16, c, dtype=dtype).relu()
    dead = relu.clone()
    dead[..., : c // 2] = 0
    constant = relu.clone()
    constant[..., : c // 2] = 3
    direction, amount = features(2, 1, c, dtype=dtype), features(2, 16, 1, dtype=dtype, seed=1)
    return {
        "zero": torch.zeros(2, 16, c, dtype=dtype),
        "single_position": features(2, 1, c, dtype=dtype),
        "constant_channels": constant,
        "dead_channels": dead,
        "all_constant": torch.full((2, 16, c), 2.5, dtype=dtype),
        "rank_one": amount * direction,
        "few_positions": relu[:, :5],
        "tiny": relu * 1e-8,
        "huge": relu * 1e8,
        "largest_half": relu / relu.max() * 6e4,
    }


def spd(*eigenvalues: float, seed: int = 0) -> Tensor:
    """A float64 symmetric matrix with these eigenvalues and random eigenvectors."""
    c = len(eigenvalues)
    q, _ = torch.linalg.qr(torch.randn(c, c, dtype=torch.float64, generator=generator(seed)))
    a = q @ torch.diag(torch.tensor(eigenvalues, dtype=torch.float64)) @ q.T
    return (a + a.T) / 2


def hard_matrices() -> dict[str, Tensor]:
    """Positive semi-definite float64 matrices (c, c) with the spectra that break eigenvector derivatives."""
    return {
        "distinct": spd(4.0, 2.5, 1.3, 0.6, 0.2, 0.05),
        "repeated": torch.diag(torch.tensor([3.0, 3.0, 2.0, 2.0, 2.0, 0.5], dtype=torch.float64)),
        "multiple_of_identity": 2.5 * torch.eye(5, dtype=torch.float64),
        "nearly_repeated": spd(2.0, 2.0 + 1e-13, 1.0, 1.0 - 1e-13, 0.3),
        "ill_conditioned": spd(1.0, 1e-3, 1e-6, 1e-9),
        "order_one": torch.tensor([[1.7]], dtype=torch.float64),
    }
