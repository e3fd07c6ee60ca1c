"""Embeddings of the Gaussian of features, mean and covariance together, into a linear space."""

from typing import Literal

import torch
from torch import Tensor

from covpool._check import check_choice, check_features
from covpool.ops._precision import full_precision
from covpool.ops._spectral import eps_of
from covpool.ops.covariance import covariance
from covpool.ops.logm_eigh import logm_eigh
from covpool.ops.positions import keep_positions, mean
from covpool.ops.powm_eigh import powm_eigh
from covpool.ops.sqrtm_newton_schulz import sqrtm_newton_schulz

Kind = Literal["sqrt", "calvo", "lovric", "nakayama", "log", "cholesky"]
KINDS: tuple[Kind, ...] = ("sqrt", "calvo", "lovric", "nakayama", "log", "cholesky")
Solver = Literal["eigh", "newton_schulz"]


@full_precision
def gaussian_embedding(
    x: Tensor,  # (..., n, c)
    *,
    kind: Kind = "sqrt",
    eps: float = 1e-3,
    solver: Solver = "eigh",
    iterations: int = 5,
    mask: Tensor | None = None,  # (..., n) bool, True = keep
    weights: Tensor | None = None,  # (..., n)
) -> Tensor:  # (..., c + 1, c + 1) or (..., c, c + 1)
    """The Gaussian N(mu, Sigma) of features as a matrix, from Y = [[Sigma + mu mu^T, mu], [mu^T, 1]].

    Args:
        x: features, one row per position.
        kind: "sqrt" (Y + eps I)^(1/2), the embedding of G2DeNet; "calvo" Y; "lovric" Y + eps I scaled to determinant
            one; "log" log(Y + eps I); "cholesky" [[L, mu], [0, 1]] with L L^T = Sigma + eps I, factorised in float64;
            "nakayama" [Sigma + mu mu^T, mu].
        eps: added to the diagonal where positive definiteness is needed, in the unit of x squared.
        solver: of "sqrt": eigen-decomposition, or Newton-Schulz with `iterations` steps.
        iterations: see `solver`.
        mask, weights: see `covariance`; an empty mask gives zeros.

    Shape: (..., n, c) -> (..., c + 1, c + 1), for "nakayama" (..., c, c + 1).

    Reference: "Deep CNNs Meet Global Covariance Pooling", G2DeNet and Appendix II.

    >>> import torch
    >>> gaussian_embedding(torch.tensor([[2.], [0.]]), kind="calvo").tolist()
    [[2.0, 1.0], [1.0, 1.0]]
    """
    check_features(x)
    check_options(kind, eps, solver)
    empty = _nothing_kept(x, mask, weights)
    z = _embed(x, kind, eps, solver, iterations, mask, weights)
    return z if empty is None else torch.where(empty, 0, z)


def check_options(kind: Kind, eps: float, solver: Solver) -> None:
    check_choice("kind", kind, KINDS)
    check_choice("solver", solver, ("eigh", "newton_schulz"))
    if eps < 0:
        raise ValueError(f"`eps` must not be negative; got {eps}")


def _embed(
    x: Tensor,
    kind: Kind,
    eps: float,
    solver: Solver,
    iterations: int,
    mask: Tensor | None,
    weights: Tensor | None,
) -> Tensor:
    if kind == "cholesky":
        return _cholesky(x, eps, mask, weights)
    y = covariance(torch.cat((x, torch.ones_like(x[..., :1])), -1), mask=mask, weights=weights, centered=False)
    if kind == "nakayama":
        return y[..., :-1, :]
    if kind == "calvo":
        return y
    if kind == "log":
        return logm_eigh(y, eps=eps)
    if kind == "lovric":
        log_determinant = logm_eigh(y, eps=eps).diagonal(dim1=-2, dim2=-1).sum(-1)
        return _plus_eps(y, eps) * torch.exp(-log_determinant / y.shape[-1])[..., None, None]
    y = _plus_eps(y, eps)
    return powm_eigh(y, 0.5) if solver == "eigh" else sqrtm_newton_schulz(y, iterations=iterations)


def _plus_eps(a: Tensor, eps: float | Tensor) -> Tensor:
    return a + eps * torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)


def _cholesky(x: Tensor, eps: float, mask: Tensor | None, weights: Tensor | None) -> Tensor:
    sigma = covariance(x.double(), mask=mask, weights=weights)
    trace = sigma.detach().diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    round_off = (
        4 * x.shape[-1] * eps_of(trace)
    )  # what float64 leaves of a singular matrix; far below eps at usual scales
    lower, failed = torch.linalg.cholesky_ex(_plus_eps(sigma, round_off.clamp(min=eps)))
    lower = torch.where(failed[..., None, None] == 0, lower, torch.nan).to(x.dtype)  # NaN in, NaN out, item by item
    x, w = keep_positions(x, mask, weights)
    top = torch.cat((lower, mean(x, w).unsqueeze(-1)), -1)
    last = torch.eye(top.shape[-1], dtype=x.dtype, device=x.device)[-1:].expand(*top.shape[:-2], 1, -1)
    return torch.cat((top, last), -2)


def _nothing_kept(x: Tensor, mask: Tensor | None, weights: Tensor | None) -> Tensor | None:
    _, w = keep_positions(x, mask, weights)
    return None if w is None else (w == 0).all(-1)[..., None, None]
