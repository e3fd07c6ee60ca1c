"""The square root of a symmetric matrix, differentiated through its eigenvectors with the matrix K."""

import torch
from torch import Tensor

from covpool._check_tensors import check_square
from covpool.ops._spectral import ByDecomposition, compose, rotate
from covpool.ops.eigh import eigh
from covpool.ops.elementary import reciprocal_or_zero, symmetrize
from covpool.ops.powm_eigh import null_threshold
from covpool.ops.precision import full_precision


def _derivative(h: Tensor, roots: Tensor, u: Tensor, _: None) -> Tensor:
    """U (K^T o (U^T dl/dU) + diag(dl/dL)) U^T, symmetrized, with dl/dU = 2 sym(H) U L^(1/2).

    It is also the forward derivative, because the map is its own adjoint.
    """
    eigenvalues = roots * roots
    k = reciprocal_or_zero(eigenvalues.unsqueeze(-2) - eigenvalues.unsqueeze(-1))  # K^T, zero on the diagonal
    h = rotate(u, h)
    through_vectors = symmetrize(k * (2 * h * roots.unsqueeze(-2)))
    through_values = torch.diag_embed(0.5 * reciprocal_or_zero(roots) * h.diagonal(dim1=-2, dim2=-1))
    return u @ (through_vectors + through_values) @ u.mT


@full_precision
def sqrtm_k_matrix(
    a: Tensor,  # (..., c, c)
) -> Tensor:  # (..., c, c)
    """The square root of positive semi-definite matrices by eigen-decomposition, with matrix back-propagation.

    The derivative goes through eigenvectors and eigenvalues, with K_ij = 1 / (l_i - l_j) and 0 in place of 1 / 0. It is
    for comparison only: where eigenvalues are equal it lacks a part of the derivative that `powm_eigh` and
    `sqrtm_lyapunov` have, and where they are nearly equal it loses accuracy. Second derivatives raise an error.

    Args:
        a: Symmetric positive semi-definite matrices. Only their symmetric part counts. Eigenvalues within c eps(l_1) of
            zero count as zero.

    Shape: (..., c, c) -> (..., c, c).

    Reference: Ionescu et al., "Matrix Backpropagation for Deep Networks with Structured Layers"; "Deep CNNs Meet Global
    Covariance Pooling", MPN-COV.

    >>> import torch
    >>> a = torch.eye(2).requires_grad_()
    >>> sqrtm_k_matrix(a).sum().backward()
    >>> a.grad  # the true derivative is 1/2 everywhere
    tensor([[0.5000, 0.0000],
            [0.0000, 0.5000]])
    """
    check_square("a", a)
    s = symmetrize(a)
    eigenvalues, u = eigh(s.detach())
    null = eigenvalues <= null_threshold(eigenvalues, "rank", s.shape[-1])
    roots = torch.where(null, 0, eigenvalues).sqrt()
    return ByDecomposition.call(s, compose(u, roots), roots, u, None, _derivative)
