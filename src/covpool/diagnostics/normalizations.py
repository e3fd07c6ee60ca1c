"""The functions that the normalizations of covariance pooling apply to eigenvalues, for plots."""

import torch
from torch import Tensor

from covpool._check_tensors import check_floating
from covpool._errors import check_choice, check_positive_int
from covpool.ops.powm_eigh import Normalization
from covpool.ops.sqrtm_newton_schulz import Prenorm


def power(
    eigenvalues: Tensor,  # (..., c), not negative
    alpha: float = 0.5,
    *,
    normalization: Normalization | None = None,
) -> Tensor:  # (..., c)
    """Return l^alpha (MPN-COV), optionally divided by the largest (M-l2) or the Euclidean norm (M-Fro); 0 stays 0.

    >>> power(torch.tensor([9.0, 4.0, 0.0])).tolist()
    [3.0, 2.0, 0.0]
    """
    check_floating("eigenvalues", eigenvalues)
    check_choice("normalization", normalization, (None, "spectral", "frobenius"))
    largest = eigenvalues.amax(-1, keepdim=True)
    if normalization is None:
        return eigenvalues**alpha
    f = (eigenvalues / torch.where(largest == 0, 1, largest)) ** alpha  # dividing first avoids overflow
    if normalization == "spectral":
        return torch.where(largest == 0, 0, f)
    norm = torch.linalg.vector_norm(f, dim=-1, keepdim=True)
    return torch.where(largest == 0, 0, f / norm)


def logarithm(
    eigenvalues: Tensor,  # (..., c), not negative
    *,
    eps: float = 1e-3,
) -> Tensor:  # (..., c)
    """Return log(l + eps) (DeepO2P).

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
    """Apply N iterations of iSQRT-COV to eigenvalues: sqrt(l) x_N with x_0 = sqrt(l / t), x <- x (3 - x^2) / 2.

    Args:
        eigenvalues: All eigenvalues of a matrix, or any points in [0, t] if `t` is given.
        iterations: Number N of iterations.
        prenorm: How t is computed: the sum of the eigenvalues ("trace") or their Euclidean norm ("frobenius").
        postcomp: False leaves out the factor sqrt(t).
        t: Norm of a matrix, to draw a curve over points that are not its eigenvalues.

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
