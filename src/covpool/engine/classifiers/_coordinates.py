"""Training vectors in coordinates that are cheap to optimize in.

A classifier with an l2 penalty depends on the training vectors only through their inner products. With fewer vectors
than dimensions (the usual case for second-order pools), the n x n Cholesky factor of the Gram matrix therefore stands
for the n x d vectors: the problem is the same, and every product with it costs n / (2 d) of the original. Otherwise the
vectors are rotated to their principal axes, along each of which the curvature of the loss is known.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

ROWS = 1024  # rows of the Gram matrix that are factored at a time
GRAM_ROWS = 256  # rows of the Gram matrix that are computed at a time, up to its diagonal
TRIANGLE_ROWS = 512  # rows of a triangle that are multiplied at a time; smaller blocks skip more zeros
ROTATED = 4096  # dimensions up to which vectors are rotated; the axes of more of them cost more than they save
COLUMNS = 4096  # columns of the vectors that are centered at a time; bounds the memory of the Gram matrix
# Added to the diagonal of the Gram matrix, relative to its mean: a hundred times the round-off of float32 products, so
# that the factor exists for repeated vectors and for vectors of rank below n.
JITTER = {torch.float32: 1e-6, torch.float64: 1e-12}


class Rows:
    """Training vectors as the rows of a matrix, and the two products with it that an optimizer needs.

    Args:
        values: the vectors, (n, r).
        lower: whether they are a lower triangle; the products then skip its zeros.
    """

    def __init__(self, values: Tensor, lower: bool) -> None:
        self.values, self.lower = values, lower
        self._blocks = [(top, top + TRIANGLE_ROWS) for top in range(0, len(values), TRIANGLE_ROWS)] if lower else []

    def times(self, weights: Tensor) -> Tensor:  # (k, r) -> (n, k)
        """values weights^T."""
        if not self.lower:
            return self.values @ weights.mT
        return torch.cat([self.values[top:end, :end] @ weights[:, :end].mT for top, end in self._blocks])

    def weighted(self, residual: Tensor) -> Tensor:  # (n, k) -> (k, r)
        """residual^T values."""
        if not self.lower:
            return residual.mT @ self.values
        return torch.cat([residual[top:].mT @ self.values[top:, top:end] for top, end in self._blocks], 1)

    def part(self, chosen: Tensor) -> "Part":  # (m,)
        """The rows with these indices, in coordinates of their own."""
        return Part(self, chosen)


class Part:
    """Some of the rows of a matrix, in coordinates with no more dimensions than there are rows.

    Attributes:
        rows: the chosen rows in these coordinates.
    """

    def __init__(self, whole: Rows, chosen: Tensor) -> None:
        self._own = whole.values[chosen]  # (m, r)
        if whole.lower:
            factor, scale = _triangle(self._own, self._own.new_zeros(self._own.shape[1]))
            self.rows = Rows(factor.mul_(scale), lower=True)
        else:
            self.rows = Rows(self._own, lower=False)

    def place(self, vectors: Tensor) -> Tensor:  # (i, r) -> (i, m)
        """Other vectors of the whole in these coordinates; what is orthogonal to all chosen rows is lost."""
        if not self.rows.lower:
            return vectors
        return torch.linalg.solve_triangular(self.rows.values, self._own @ vectors.mT, upper=False).mT

    def restore(self, weights: Tensor) -> Tensor:  # (k, m) -> (k, r)
        """Weights for these coordinates as weights for those of the whole."""
        if not self.rows.lower:
            return weights
        return torch.linalg.solve_triangular(self.rows.values.mT, weights.mT, upper=True).mT @ self._own


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Centered and scaled training vectors, or their equivalent of n dimensions.

    Attributes:
        rows: the vectors in these coordinates, (n, r) with r = min(n, d).
        mean: of the vectors, (d,).
        scale: what the centered vectors are divided by: the root of their mean squared length.
    """

    rows: Rows
    mean: Tensor
    scale: float
    _z: Tensor  # (n, d)
    _axes: Tensor | None = None  # (d, d), the principal axes to which the vectors are rotated

    @staticmethod
    def of(z: Tensor) -> "Coordinates":  # (n, d)
        """Choose the cheaper coordinates for training vectors."""
        mean = _mean(z)
        n, d = z.shape
        if d <= n:
            centred = z - mean
            scale = _root_mean_square(centred.square().sum(1, dtype=torch.float64))
            axes = torch.linalg.eigh((centred.mT @ centred).double())[1].to(z.dtype) if d <= ROTATED else None
            for rows in centred.split(ROWS):  # in place, because the vectors need most of the memory
                rows.copy_(rows / scale if axes is None else rows @ (axes / scale))
            return Coordinates(Rows(centred, lower=False), mean, scale, z, axes)
        factor, scale = _triangle(z, mean)
        return Coordinates(Rows(factor, lower=True), mean, scale, z)

    def original(
        self,
        weights: Tensor,  # (k, r)
        bias: Tensor,  # (k,)
    ) -> tuple[Tensor, Tensor]:  # (k, d), (k,)
        """The weights and the bias for the vectors as they were given: centering and scaling are folded in."""
        if self.rows.lower:
            combination = torch.linalg.solve_triangular(self.rows.values.mT, weights.mT, upper=True).mT  # (k, n)
            combination = combination / self.scale**2
            original = combination @ self._z - combination.sum(1, keepdim=True) * self.mean
        else:
            original = (weights if self._axes is None else weights @ self._axes.mT) / self.scale
        return original, bias - original @ self.mean


def _triangle(z: Tensor, mean: Tensor) -> tuple[Tensor, float]:  # (m, d), (d,) -> (m, m)
    """A lower triangle with the inner products of the centered vectors, divided by their scale; the scale."""
    try:
        factor, scale = _factor(_centred_gram(z, mean, z.dtype), JITTER[z.dtype])
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # round-off of the products exceeds the jitter
        factor, scale = _factor(_centred_gram(z, mean, torch.float64), JITTER[z.dtype])
    return factor.to(z.dtype), scale


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
