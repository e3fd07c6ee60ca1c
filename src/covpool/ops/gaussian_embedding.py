"""Embeddings of the Gaussian of features, its mean and covariance together, into a linear space."""

from typing import Literal

import torch
from torch import Tensor

from covpool._check_tensors import check_features
from covpool._errors import CovpoolError, check_choice
from covpool.ops._backend import exporting
from covpool.ops._isqrt_forms import GramForm
from covpool.ops._spd_inverse import spd_inverse
from covpool.ops._spectral import eps_of
from covpool.ops.covariance import covariance
from covpool.ops.elementary import symmetrize
from covpool.ops.logm_eigh import logm_eigh
from covpool.ops.positions import keep_positions, mean
from covpool.ops.powm_covariance import choose_power_form
from covpool.ops.powm_eigh import powm_eigh
from covpool.ops.precision import full_precision, product
from covpool.ops.sqrtm_newton_schulz import sqrtm_newton_schulz

EmbeddingKind = Literal["sqrt", "calvo", "lovric", "nakayama", "log", "cholesky"]
EMBEDDING_KINDS: tuple[EmbeddingKind, ...] = ("sqrt", "calvo", "lovric", "nakayama", "log", "cholesky")
EmbeddingSolver = Literal["eigh", "newton_schulz"]


@full_precision
def gaussian_embedding(
    x: Tensor,  # (..., n, c)
    *,
    kind: EmbeddingKind = "sqrt",
    eps: float = 1e-3,
    solver: EmbeddingSolver = "eigh",
    iterations: int = 5,
    mask: Tensor | None = None,  # (..., n) bool, True = keep
    weights: Tensor | None = None,  # (..., n)
    form: GramForm | Literal["auto"] = "auto",
) -> Tensor:  # (..., c + 1, c + 1) or (..., c, c + 1)
    """The Gaussian N(mu, Sigma) of features as a matrix, from Y = [[Sigma + mu mu^T, mu], [mu^T, 1]].

    Args:
        x: Features, one row per position.
        kind: "sqrt" (Y + eps I)^(1/2), the embedding of G2DeNet; "calvo" Y; "lovric" Y + eps I scaled to determinant
            one; "log" log(Y + eps I); "cholesky" [[L, mu], [0, 1]] with L L^T = Sigma + eps I, factorized in float64;
            "nakayama" [Sigma + mu mu^T, mu].
        eps: Number added to the diagonal where positive definiteness is needed, in the unit of x squared.
        solver: Solver of "sqrt": eigen-decomposition, or Newton-Schulz with `iterations` steps.
        iterations: Number of Newton-Schulz steps.
        mask, weights: See `covariance`. An empty mask gives zeros.
        form: Form of "sqrt" by eigen-decomposition with eps > 0: "primal" decomposes Y + eps I, "dual" the n x n Gram
            matrix of the same features; both give the same result, and "auto" takes the smaller. As in
            `powm_covariance` only "primal" has a derivative in weights that are zero.

    Shape: (..., n, c) -> (..., c + 1, c + 1), for "nakayama" (..., c, c + 1).

    Reference: "Deep CNNs Meet Global Covariance Pooling", G2DeNet and Appendix II.

    >>> import torch
    >>> gaussian_embedding(torch.tensor([[2.], [0.]]), kind="calvo").tolist()
    [[2.0, 1.0], [1.0, 1.0]]
    """
    check_features(x)
    check_options(kind, eps, solver)
    check_choice("form", form, ("auto", "primal", "dual"))
    empty = _nothing_kept(x, mask, weights)
    if _goes_dual(x, kind, eps, solver, weights, form):
        z = _dual_root(x, eps, mask, weights)
    else:
        z = _embed(x, kind, eps, solver, iterations, mask, weights)
    return z if empty is None else torch.where(empty, 0, z)


def check_options(kind: EmbeddingKind, eps: float, solver: EmbeddingSolver) -> None:
    check_choice("kind", kind, EMBEDDING_KINDS)
    check_choice("solver", solver, ("eigh", "newton_schulz"))
    if not 0 <= eps < float("inf"):
        raise CovpoolError(f"`eps` must be finite and not negative; got {eps}")


def _embed(
    x: Tensor,
    kind: EmbeddingKind,
    eps: float,
    solver: EmbeddingSolver,
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
    if solver == "newton_schulz":
        return sqrtm_newton_schulz(_plus_eps(y, eps), iterations=iterations)
    return _root(y, eps)


def _root(y: Tensor, eps: float) -> Tensor:
    """(Y + eps I)^(1/2). No eigenvalue is below eps, so one below half of it is round-off; at eps 0 the rank tells."""
    return powm_eigh(_plus_eps(y, eps), 0.5, eps=eps / 2 if eps > 0 else "rank")


def _goes_dual(
    x: Tensor, kind: EmbeddingKind, eps: float, solver: EmbeddingSolver, weights: Tensor | None, form: str
) -> bool:
    known = kind == "sqrt" and solver == "eigh" and eps > 0
    if form == "dual" and not known:
        raise CovpoolError(
            f"`form` 'dual' needs kind 'sqrt', solver 'eigh' and eps > 0; got {kind!r}, {solver!r}, {eps}"
        )
    n, c = x.shape[-2:]
    weight_gradient = weights is not None and weights.requires_grad
    chosen = choose_power_form(n, c + 1, weight_gradient, exporting()) if form == "auto" else form
    return known and chosen == "dual"


def _dual_root(x: Tensor, eps: float, mask: Tensor | None, weights: Tensor | None) -> Tensor:
    """(B^T B + eps I)^(1/2) = sqrt(eps) I + B^T (R + sqrt(eps) I)^-1 B, R = (B B^T + eps I)^(1/2), Y = B^T B."""
    x, w = keep_positions(x, mask, weights)
    b = torch.cat((x, torch.ones_like(x[..., :1])), -1)
    b = b * x.shape[-2] ** -0.5 if w is None else b * w.sqrt().unsqueeze(-1)
    inverse, _ = spd_inverse(_plus_eps(_root(product(b, b.mT), eps), eps**0.5))
    return _plus_eps(symmetrize(product(b.mT, product(inverse, b))), eps**0.5)


def _plus_eps(a: Tensor, eps: float | Tensor) -> Tensor:
    return a + eps * torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)


def _cholesky(x: Tensor, eps: float, mask: Tensor | None, weights: Tensor | None) -> Tensor:
    sigma = covariance(x.double(), mask=mask, weights=weights)
    trace = sigma.detach().diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    round_off = 4 * x.shape[-1] * eps_of(trace)  # left of a singular matrix in float64; far below eps at usual scales
    lower, failed = torch.linalg.cholesky_ex(_plus_eps(sigma, round_off.clamp(min=eps)))
    lower = torch.where(failed[..., None, None] == 0, lower, torch.nan).to(x.dtype)  # NaN in, NaN out, item by item
    x, w = keep_positions(x, mask, weights)
    top = torch.cat((lower, mean(x, w).unsqueeze(-1)), -1)
    last = torch.eye(top.shape[-1], dtype=x.dtype, device=x.device)[-1:].expand(*top.shape[:-2], 1, -1)
    return torch.cat((top, last), -2)


def _nothing_kept(x: Tensor, mask: Tensor | None, weights: Tensor | None) -> Tensor | None:
    _, w = keep_positions(x, mask, weights)
    return None if w is None else (w == 0).all(-1)[..., None, None]
