"""The logarithm of a positive semi-definite matrix by eigen-decomposition."""

import torch
from torch import Tensor

from covpool._check_tensors import check_square
from covpool._errors import CovpoolError, check_choice
from covpool.ops._spectral import SpectralFunction, compose, eps_of
from covpool.ops.eigh import eigh
from covpool.ops.elementary import symmetrize
from covpool.ops.powm_eigh import NullGradient
from covpool.ops.precision import full_precision, product


@full_precision
def logm_eigh(
    a: Tensor,  # (..., c, c)
    *,
    eps: float = 1e-3,
    null_gradient: NullGradient = "exact",
) -> Tensor:  # (..., c, c)
    """log(a + eps I) = U diag(log(l + eps)) U^T of positive semi-definite matrices.

    The first and second derivatives are exact on repeated and, with eps > 0, on zero eigenvalues.

    Args:
        a: Symmetric positive semi-definite matrices. Only their symmetric part counts. Eigenvalues that are negative by
            round-off alone (above -c eps(l_1)) count as zero.
        eps: Number added to every eigenvalue, in the unit of `a`; 1e-3 in the paper. Use 0 for positive definite
            matrices.
        null_gradient: "released" restricts the derivative to the range of `a` (eigenvalues above c eps(l_1)), as in the
            released code of DeepO2P.

    Shape: (..., c, c) -> (..., c, c).

    Reference: Ionescu et al., "Matrix Backpropagation for Deep Networks with Structured Layers" (DeepO2P).

    >>> import torch
    >>> logm_eigh(torch.eye(2), eps=0.).abs().max().item()
    0.0
    """
    check_square("a", a)
    check_choice("null_gradient", null_gradient, ("exact", "released"))
    if not eps >= 0:
        raise CovpoolError(f"`eps` must not be negative; got {eps}")
    a = symmetrize(a)
    eigenvalues, u = eigh(a.detach())
    round_off = eps_of(eigenvalues[..., -1:]) * a.shape[-1]
    eigenvalues = torch.where(eigenvalues.abs() <= round_off, eigenvalues.clamp(min=0), eigenvalues)
    if null_gradient == "released":  # this changes only the derivative; the value comes from the decomposition
        onto_range = compose(u, (eigenvalues > round_off).to(a.dtype))
        a = product(product(onto_range, a), onto_range)
    return SpectralFunction.call(a, None, eigenvalues + eps, u, "log")
