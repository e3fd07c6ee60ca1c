"""What the normalisations of covariance pooling do to eigenvalues: the curves behind the pools, to be plotted."""

import torch
from torch import Tensor

from covpool._check import check_choice, check_positive_int
from covpool._check_tensors import check_floating
from covpool.ops.powm_eigh import Normalization
from covpool.ops.sqrtm_newton_schulz import Prenorm


def power(
    eigenvalues: Tensor,  # (..., c), not negative
    alpha: float = 0.5,
    *,
    normalization: Normalization | None = None,
) -> Tensor:  # (..., c)
    """l^alpha (MPN-COV), over its largest (M-l2) or its Euclidean norm (M-Fro) where wished; zeros stay zero.

    >>> power(torch.tensor([9.0, 4.0, 0.0])).tolist()
    [3.0, 2.0, 0.0]
    """
    check_floating("eigenvalues", eigenvalues)
    check_choice("normalization", normalization, (None, "spectral", "frobenius"))
    largest = eigenvalues.amax(-1, keepdim=True)
    if normalization is None:
        return eigenvalues**alpha
    f = (eigenvalues / torch.where(largest == 0, 1, largest)) ** alpha  # the ratio first: nothing overflows
    if normalization == "spectral":
        return torch.where(largest == 0, 0, f)
    norm = torch.linalg.vector_norm(f, dim=-1, keepdim=True)
    return torch.where(largest == 0, 0, f / norm)


def logarithm(
    eigenvalues: Tensor,  # (..., c), not negative
    *,
    eps: float = 1e-3,
) -> Tensor:  # (..., c)
    """log(l + eps) (DeepO2P).

    >>> logarithm(torch.tensor([1.0]), eps=0.0).tolist()
    [0.0]
    """
    check_floating("eigenvalues", eigenvalues)
    return (eigenvalues + eps).log()


def newton_schulz(
    eigenvalues: Tensor,  # (..., c), not negative
    *,
    iterations: int = 5,
    prenorm: Prenorm = "trace",
    postcomp: bool = True,
    t: Tensor | None = None,  # (...)
) -> Tensor:  # (..., c)
    """sqrt(l) x_N with x_0 = sqrt(l / t), x <- x (3 - x^2) / 2: what N steps of iSQRT-COV make of an eigenvalue.

    Args:
        eigenvalues: all of a matrix, unless `t` is given.
        iterations: N.
        prenorm: t is the sum of the eigenvalues ("trace") or their Euclidean norm ("frobenius").
        postcomp: False leaves the factor sqrt(t) out.
        t: of a matrix whose eigenvalues these are not, for a curve over any points in [0, t].

    >>> newton_schulz(torch.tensor([4.0]), iterations=1).tolist()
    [2.0]
    """
    check_floating("eigenvalues", eigenvalues)
    check_choice("prenorm", prenorm, ("trace", "frobenius"))
    check_positive_int("iterations", iterations)
    if t is None:
        t = eigenvalues.sum(-1) if prenorm == "trace" else torch.linalg.vector_norm(eigenvalues, dim=-1)
    t = t.unsqueeze(-1)
    root = (eigenvalues / torch.where(t == 0, 1, t)).sqrt()
    x = root
    for _ in range(iterations):
        x = x * (3 - x * x) / 2
    return root * x * t.sqrt() if postcomp else root * x
