"""Gaussian pooling: the mean and covariance, embedded together (G2DeNet and the embeddings it compares with)."""

import torch
from torch import Tensor

from covpool.ops import gaussian_embedding, vech
from covpool.ops.gaussian_embedding import EmbeddingKind, EmbeddingSolver, check_options
from covpool.pools._vectorization import triangle
from covpool.pools.base import Pool, PositiveInt, register


@register("gaussian", title="G2DeNet", order="1 + 2")
class GaussianPool(Pool):
    """The Gaussian of the features, embedded into a linear space.

    Formula: z = vech(([[Sigma + mu mu^T, mu], [mu^T, 1]] + eps I)^(1/2))
    Reference: Wang et al., G2DeNet: Global Gaussian Distribution Embedding Network, CVPR 2017
    Size: (c + 1) (c + 2) / 2
    Cost: n c^2 + about 10 c^3 (eigen-decomposition)

    Args:
        kind: Embedding, see `covpool.ops.gaussian_embedding`.
        eps: Number added to the diagonal if the embedding needs a positive definite matrix, in the unit of x squared.
        solver: Solver of the square root: "eigh" is exact, "newton_schulz" iterates.
        iterations: Number of iterations of "newton_schulz".
    """

    kind: EmbeddingKind = "sqrt"
    eps: float = 1e-3
    solver: EmbeddingSolver = "eigh"
    iterations: PositiveInt = 5

    def pooled_size(self, c: int) -> int:
        constant_corner = self.kind in ("nakayama", "cholesky")
        return triangle(c + 1) - constant_corner

    def _build(self) -> None:
        check_options(self.kind, self.eps, self.solver)

    def multiply_adds(self, n: int, c: int) -> float:
        return n * c**2 + 10 * c**3  # of the eigen-decomposition

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        z = gaussian_embedding(x, mask=mask, weights=weights, **self.options)
        if self.kind == "nakayama":
            return torch.cat((vech(z[..., :-1]), z[..., -1]), -1)
        if self.kind == "cholesky":
            c = x.shape[-1]
            return torch.cat((vech(z[..., :c, :c].mT), z[..., :c, -1]), -1)
        return vech(z)
