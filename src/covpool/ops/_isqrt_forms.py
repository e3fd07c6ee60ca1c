"""The three equal forms of iSQRT-COV, from features: value, adjoint and tangent in torch's operations.

With K (n, c) the centered features scaled so that the covariance is t K^T K, the result is sqrt(t) Y with
  primal    Y = Y_N(K^T K)                      the iteration on c x c matrices,
  dual      Y = K^T P_N(K K^T) K                the iteration on n x n matrices,
  spectral  the same polynomial through the eigenvalues of the smaller of the two.
"""

from typing import Literal

import torch
from torch import Tensor

from covpool.ops import _divided_differences
from covpool.ops._newton_schulz import newton_schulz, newton_schulz_pair
from covpool.ops._spectral import compose, rotate
from covpool.ops.eigh import eigh
from covpool.ops.elementary import frobenius_norm, inner, reciprocal_or_zero, symmetrize
from covpool.ops.positions import center
from covpool.ops.sqrtm_newton_schulz import Prenorm

GramForm = Literal["primal", "dual"]


def smaller(n: int, c: int) -> GramForm:
    """The form whose Gram matrix of K (n, c) has the lower order."""
    return "dual" if n < c else "primal"


# --- features <-> K -------------------------------------------------------------------------------


def scaled(x: Tensor, w: Tensor | None, centered: bool = True) -> Tensor:
    """Centered features whose second moment matrix is the covariance: sqrt(w_i) (x_i - mean)."""
    xc = center(x, w, centered)
    return xc * x.shape[-2] ** -0.5 if w is None else xc * w.sqrt().unsqueeze(-1)


def scaled_adjoint(g: Tensor, w: Tensor | None) -> Tensor:
    """The adjoint of `scaled`, which is linear in x."""
    if w is None:
        g = g * g.shape[-2] ** -0.5
        return g - g.mean(-2, keepdim=True)
    g = g * w.sqrt().unsqueeze(-1)
    return g - w.unsqueeze(-1) * g.sum(-2, keepdim=True)


def normalized(k0: Tensor, prenorm: Prenorm) -> tuple[Tensor, Tensor]:
    """K = k0 / sqrt(t) and t = tr or |.|_F of k0^T k0."""
    trace = inner(k0, k0)
    k = k0 * reciprocal_or_zero(trace).sqrt()
    if prenorm == "trace":
        return k, trace
    ratio = frobenius_norm(gram(k, smaller(*k.shape[-2:])))  # in [1 / sqrt(rank), 1]
    return k * reciprocal_or_zero(ratio).sqrt(), trace * ratio


def gram(k: Tensor, form: GramForm) -> Tensor:
    """K^T K or K K^T."""
    return k.mT @ k if form == "primal" else k @ k.mT


# --- Y and the gradient in K, form by form --------------------------------------------------------


def polynomial(k: Tensor, form: GramForm, iterations: int) -> Tensor:
    (f,) = newton_schulz((gram(k, form),), iterations, "root" if form == "primal" else "factor")
    return f if form == "primal" else k.mT @ (f @ k)


def polynomial_adjoint(k: Tensor, s: Tensor, form: GramForm, iterations: int) -> tuple[Tensor, Tensor]:
    """The gradient of <S, Y> in K, S symmetric, and <S, Y> itself."""
    if form == "primal":
        y, l = newton_schulz_pair(gram(k, form), s, iterations, "root")  # noqa: E741
        return 2 * (k @ l), inner(s, y)
    ks = k @ s
    r = symmetrize(ks @ k.mT)
    p, l = newton_schulz_pair(gram(k, form), r, iterations, "factor")  # noqa: E741
    return 2 * (p @ ks + l @ k), inner(r, p)


def decompose(k: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The operand, the eigenvalues and the eigenvectors U of the smaller Gram matrix.

    The operand is U^T K in the dual form and K^T K in the primal form.
    """
    form = smaller(*k.shape[-2:])
    a = gram(k, form)
    eigenvalues, u = eigh(a)
    return a if form == "primal" else u.mT @ k, torch.where(eigenvalues < 0, 0, eigenvalues), u


def spectral(operand: Tensor, eigenvalues: Tensor, u: Tensor, scale: Tensor, form: GramForm, iterations: int) -> Tensor:
    """scale Y. The scale (b, 1, 1) is multiplied into the eigenvalues, where it costs nothing."""
    p = eigenvalues.new_ones(())
    for _ in range(iterations):
        p = p * (3 - eigenvalues * p * p) / 2
    p = p * scale.squeeze(-1)
    if form == "primal":
        # A P instead of U diag(a p) U^T, so that the error of eigh does not affect A
        return symmetrize(operand @ compose(u, p))
    return operand.mT @ (p.unsqueeze(-1) * operand)


def spectral_adjoint_primal(
    k: Tensor, t: Tensor, s: Tensor, eigenvalues: Tensor, u: Tensor, iterations: int, prenorm: Prenorm, postcomp: bool
) -> Tensor:
    """The gradient of <S, sqrt(t) Y> in k0, by divided differences of the c x c matrix."""
    p, differences = _divided_differences.of_newton_schulz_factor(eigenvalues, iterations)
    h = rotate(u, s)
    slopes = p.unsqueeze(-1) + eigenvalues.unsqueeze(-2) * differences
    value = (h.diagonal(dim1=-2, dim2=-1) * eigenvalues * p).sum(-1)[..., None, None]
    return through_norm((2 * (k @ (u @ (slopes * h) @ u.mT)), value), k, t, prenorm, postcomp)


def spectral_adjoint_dual(
    w: Tensor, t: Tensor, s: Tensor, eigenvalues: Tensor, u: Tensor, iterations: int, prenorm: Prenorm, postcomp: bool
) -> Tensor:
    """The same by the n x n matrix, in the basis of its eigenvectors until the end: w = U^T K, so w w^T is diagonal."""
    p, differences = _divided_differences.of_newton_schulz_factor(eigenvalues, iterations)
    ws = w @ s
    r = ws @ w.mT
    on_diagonal = r.diagonal(dim1=-2, dim2=-1)
    slopes = p + eigenvalues * differences.diagonal(dim1=-2, dim2=-1)
    factor = -2 * (on_diagonal * slopes).sum(-1, keepdim=True)  # -<gradient in w, w>
    if postcomp:
        factor = factor + (on_diagonal * p).sum(-1, keepdim=True)
    along = factor.expand_as(p) if prenorm == "trace" else factor * eigenvalues
    gw = torch.baddbmm(2 * p.unsqueeze(-1) * ws, 2 * differences * r + torch.diag_embed(along), w)
    return u @ (gw if postcomp else gw * reciprocal_or_zero(t).sqrt())


def through_norm(gradient: tuple[Tensor, Tensor], k: Tensor, t: Tensor, prenorm: Prenorm, postcomp: bool) -> Tensor:
    """The gradient in k0, given (gradient in K, <S, Y>): the scale t(k0) adds a multiple of dt / dk0."""
    gk, value = gradient
    factor = -inner(gk, k)
    if postcomp:
        factor = factor + value
    direction = k if prenorm == "trace" else times_gram(k)
    g = gk + factor * direction
    return g if postcomp else g * reciprocal_or_zero(t).sqrt()


def times_gram(k: Tensor) -> Tensor:
    """K K^T K."""
    return k @ gram(k, "primal") if smaller(*k.shape[-2:]) == "primal" else gram(k, "dual") @ k


def value(x: Tensor, w: Tensor | None, form: GramForm, iterations: int, prenorm: Prenorm, postcomp: bool) -> Tensor:
    k, t = normalized(scaled(x, w), prenorm)
    y = polynomial(k, form, iterations)
    return y * t.sqrt() if postcomp else y


def adjoint(
    x: Tensor, w: Tensor | None, g: Tensor, form: GramForm, iterations: int, prenorm: Prenorm, postcomp: bool
) -> Tensor:
    k, t = normalized(scaled(x, w), prenorm)
    gradient = polynomial_adjoint(k, symmetrize(g), form, iterations)
    return scaled_adjoint(through_norm(gradient, k, t, prenorm, postcomp), w)


def tangent(
    x: Tensor, w: Tensor | None, dx: Tensor, form: GramForm, iterations: int, prenorm: Prenorm, postcomp: bool
) -> Tensor:
    k0, dk0 = scaled(x, w), scaled(dx, w)
    k, t = normalized(k0, prenorm)
    r = reciprocal_or_zero(t).sqrt()
    direction = k if prenorm == "trace" else times_gram(k)
    half_dt = inner(direction, dk0 * r)  # dt / (2 t)
    dk = dk0 * r - k * half_dt
    a = gram(k, form)
    if form == "primal":
        y, dy = newton_schulz_pair(a, 2 * symmetrize(dk.mT @ k), iterations, "root")
    else:
        p, dp = newton_schulz_pair(a, 2 * symmetrize(dk @ k.mT), iterations, "factor")
        y, dy = k.mT @ (p @ k), 2 * symmetrize(dk.mT @ (p @ k)) + k.mT @ (dp @ k)
    return (dy + y * half_dt) * t.sqrt() if postcomp else dy
