"""Training vectors in coordinates that are cheap to optimise in.

A classifier with an l2 penalty depends on the training vectors only through their inner products. With fewer vectors
than dimensions (the usual case for second-order pools), the n x n Cholesky factor of the Gram matrix therefore stands
for the n x d vectors: the problem is the same, and every product with it costs n / d of the original.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

ROWS = 1024  # rows of the Gram matrix that are factored at a time
GRAM_ROWS = 256  # rows of the Gram matrix that are computed at a time, up to its diagonal
COLUMNS = 4096  # columns of the vectors that are centred at a time; bounds the memory of the Gram matrix
# Added to the diagonal of the Gram matrix, relative to its mean: a hundred times the round-off of float32 products, so
# that the factor exists for repeated vectors and for vectors of rank below n.
JITTER = {torch.float32: 1e-6, torch.float64: 1e-12}


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Centred and scaled training vectors, or their equivalent of n dimensions.

    Attributes:
        rows: the vectors in these coordinates, (n, r) with r = min(n, d).
        mean: of the vectors, (d,).
        scale: what the centred vectors are divided by: the root of their mean squared length.
    """

    rows: Tensor
    mean: Tensor
    scale: float
    _z: Tensor  # (n, d)

    @staticmethod
    def of(z: Tensor) -> "Coordinates":  # (n, d)
        """Choose the cheaper coordinates for training vectors."""
        mean = _mean(z)
        n, d = z.shape
        if d <= n:
            centred = z - mean
            scale = _root_mean_square(centred.square().sum(1, dtype=torch.float64))
            return Coordinates(centred.div_(scale), mean, scale, z)
        try:
            factor, scale = _factor(_centred_gram(z, mean, z.dtype), JITTER[z.dtype])
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # round-off of the products exceeds the jitter
            factor, scale = _factor(_centred_gram(z, mean, torch.float64), JITTER[z.dtype])
        return Coordinates(factor.to(z.dtype), mean, scale, z)

    def original(
        self,
        weights: Tensor,  # (k, r)
        bias: Tensor,  # (k,)
    ) -> tuple[Tensor, Tensor]:  # (k, d), (k,)
        """The weights and the bias for the vectors as they were given: centring and scaling are folded in."""
        if self.rows.shape[1] == self._z.shape[1]:
            original = weights / self.scale
        else:
            combination = torch.linalg.solve_triangular(self.rows.mT, weights.mT, upper=True).mT  # (k, n)
            combination = combination / self.scale**2
            original = combination @ self._z - combination.sum(1, keepdim=True) * self.mean
        return original, bias - original @ self.mean


def _factor(gram: Tensor, jitter: float) -> tuple[Tensor, float]:  # (n, n) -> (n, n)
    """The Cholesky factor of a Gram matrix, computed in place, after dividing by its mean diagonal entry; its root."""
    scale = _root_mean_square(gram.diagonal())
    gram /= scale**2
    gram.diagonal().add_(jitter)
    return cholesky_in_place(gram), scale


def cholesky_in_place(a: Tensor) -> Tensor:  # (n, n) -> (n, n)
    """Overwrite a positive definite matrix with its lower Cholesky factor, block by block.

    `torch.linalg.cholesky` needs two more matrices of this size, which are as large as the vectors themselves.
    """
    for start in range(0, len(a), ROWS):
        stop = min(start + ROWS, len(a))
        corner = torch.linalg.cholesky(a[start:stop, start:stop])
        below = torch.linalg.solve_triangular(corner, a[stop:, start:stop].mT, upper=False).mT
        a[start:stop, start:stop], a[stop:, start:stop] = corner, below
        a[stop:, stop:].addmm_(below, below.mT, alpha=-1)
    return a.tril_()


def _centred_gram(z: Tensor, mean: Tensor, dtype: torch.dtype) -> Tensor:  # (n, n), float64
    """(z - mean)(z - mean)^T, summed in float64 over blocks of columns whose products are computed in `dtype`.

    The part above the diagonal blocks, which nobody reads, stays zero.
    """
    gram = torch.zeros(len(z), len(z), dtype=torch.float64, device=z.device)
    for start in range(0, z.shape[1], COLUMNS):
        block = (z[:, start : start + COLUMNS] - mean[start : start + COLUMNS]).to(dtype)
        for top in range(0, len(z), GRAM_ROWS):
            bottom = top + GRAM_ROWS
            gram[top:bottom, :bottom] += block[top:bottom] @ block[:bottom].mT
    return gram


def _mean(z: Tensor) -> Tensor:  # (n, d) -> (d,)
    """Mean of the rows, summed in float64 over blocks: torch would copy all of z to float64 first."""
    total = torch.zeros(z.shape[1], dtype=torch.float64, device=z.device)
    for rows in z.split(ROWS):
        total += rows.sum(0, dtype=torch.float64)
    return (total / len(z)).to(z.dtype)


def _root_mean_square(squares: Tensor) -> float:
    """The root of the mean; 1 for vectors that are all equal."""
    return math.sqrt(float(squares.mean())) or 1.0
