"""From features to the Newton-Schulz root of their covariance, in whichever of three equal forms is cheapest.

With K (n, c) the centred features scaled so that the covariance is t K^T K, the result is sqrt(t) Y with
  primal    Y = Y_N(K^T K)                      the iteration on c x c matrices,
  dual      Y = K^T P_N(K K^T) K                the iteration on n x n matrices,
  spectral  the same polynomial through the eigenvalues of the smaller of the two.
"""

from typing import Any, Literal

import torch
from torch import Tensor

from covpool._check import check_choice, check_features
from covpool.ops import _divided_differences
from covpool.ops._autograd import Differentiable
from covpool.ops._eigh import eigh
from covpool.ops._newton_schulz import newton_schulz, newton_schulz_pair
from covpool.ops._precision import full_precision, outside_autocast
from covpool.ops._spectral import compose, rotate
from covpool.ops.covariance import covariance
from covpool.ops.positions import center, keep_positions
from covpool.ops.sqrtm_newton_schulz import Prenorm, check_iteration, reciprocal_or_zero, sqrtm_newton_schulz
from covpool.ops.symmetric import frobenius_norm, inner, symmetrize

Form = Literal["primal", "dual", "spectral"]
Polynomial = Literal["primal", "dual"]


def choose_form(n: int, c: int, device_type: str) -> Form:
    """The cheapest form for n positions and c channels: eigenvalues on a CPU, else products of the smaller size."""
    if device_type == "cpu":
        return "spectral"
    return smaller(n, c)


def smaller(n: int, c: int) -> Polynomial:
    """Which of the two Gram matrices of K (n, c) has the lower order."""
    return "dual" if n < c else "primal"


# --- features <-> K -------------------------------------------------------------------------------


def _scaled(x: Tensor, w: Tensor | None) -> Tensor:
    """Centred features whose second moment matrix is the covariance: sqrt(w_i) (x_i - mean)."""
    xc = center(x, w)
    return xc * x.shape[-2] ** -0.5 if w is None else xc * w.sqrt().unsqueeze(-1)


def _scaled_adjoint(g: Tensor, w: Tensor | None) -> Tensor:
    """The adjoint of `_scaled`, which is linear in x."""
    if w is None:
        g = g * g.shape[-2] ** -0.5
        return g - g.mean(-2, keepdim=True)
    g = g * w.sqrt().unsqueeze(-1)
    return g - w.unsqueeze(-1) * g.sum(-2, keepdim=True)


def _normalized(k0: Tensor, prenorm: Prenorm) -> tuple[Tensor, Tensor]:
    """K = k0 / sqrt(t) and t = tr or |.|_F of k0^T k0."""
    trace = inner(k0, k0)
    k = k0 * reciprocal_or_zero(trace).sqrt()
    if prenorm == "trace":
        return k, trace
    ratio = frobenius_norm(_gram(k, smaller(*k.shape[-2:])))  # in [1 / sqrt(rank), 1]
    return k * reciprocal_or_zero(ratio).sqrt(), trace * ratio


def _gram(k: Tensor, form: Polynomial) -> Tensor:
    """K^T K or K K^T."""
    return k.mT @ k if form == "primal" else k @ k.mT


# --- Y and the gradient in K, form by form --------------------------------------------------------


def _polynomial(k: Tensor, form: Polynomial, iterations: int) -> Tensor:
    (f,) = newton_schulz((_gram(k, form),), iterations, "root" if form == "primal" else "factor")
    return f if form == "primal" else k.mT @ (f @ k)


def _polynomial_adjoint(k: Tensor, s: Tensor, form: Polynomial, iterations: int) -> tuple[Tensor, Tensor]:
    """The gradient of <S, Y> in K, S symmetric, and <S, Y> itself."""
    if form == "primal":
        y, l = newton_schulz_pair(_gram(k, form), s, iterations, "root")  # noqa: E741
        return 2 * (k @ l), inner(s, y)
    ks = k @ s
    r = symmetrize(ks @ k.mT)
    p, l = newton_schulz_pair(_gram(k, form), r, iterations, "factor")  # noqa: E741
    return 2 * (p @ ks + l @ k), inner(r, p)


def _decompose(k: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of the smaller Gram matrix."""
    eigenvalues, u = eigh(_gram(k, smaller(*k.shape[-2:])))
    return torch.where(eigenvalues < 0, 0, eigenvalues), u


def _spectral(k: Tensor, eigenvalues: Tensor, u: Tensor, iterations: int) -> Tensor:
    p = eigenvalues.new_ones(())
    for _ in range(iterations):
        p = p * (3 - eigenvalues * p * p) / 2
    if smaller(*k.shape[-2:]) == "primal":
        return compose(u, eigenvalues * p)
    w = u.mT @ k
    return w.mT @ (p.unsqueeze(-1) * w)


def _spectral_adjoint(k: Tensor, s: Tensor, eigenvalues: Tensor, u: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
    """As `_polynomial_adjoint`, by divided differences."""
    p, differences = _divided_differences.of_newton_schulz_factor(eigenvalues, iterations)
    if smaller(*k.shape[-2:]) == "primal":
        h = rotate(u, s)
        slopes = p.unsqueeze(-1) + eigenvalues.unsqueeze(-2) * differences
        value = (h.diagonal(dim1=-2, dim2=-1) * eigenvalues * p).sum(-1)[..., None, None]
        return 2 * (k @ (u @ (slopes * h) @ u.mT)), value
    w = u.mT @ k
    ws = w @ s
    r = ws @ w.mT
    value = (r.diagonal(dim1=-2, dim2=-1) * p).sum(-1)[..., None, None]
    return 2 * (u @ (p.unsqueeze(-1) * ws + (differences * r) @ w)), value


def _through_norm(gradient: tuple[Tensor, Tensor], k: Tensor, t: Tensor, prenorm: Prenorm, postcomp: bool) -> Tensor:
    """The gradient in k0 from (gradient in K, <S, Y>): the scale t(k0) adds a multiple of dt / dk0."""
    gk, value = gradient
    factor = -inner(gk, k)
    if postcomp:
        factor = factor + value
    direction = k if prenorm == "trace" else _times_gram(k)
    g = gk + factor * direction
    return g if postcomp else g * reciprocal_or_zero(t).sqrt()


def _times_gram(k: Tensor) -> Tensor:
    """K K^T K."""
    return k @ _gram(k, "primal") if smaller(*k.shape[-2:]) == "primal" else _gram(k, "dual") @ k


# --- the Functions --------------------------------------------------------------------------------


def _constant_weights(differentiated: bool) -> None:
    if differentiated:
        raise RuntimeError("this form of isqrt_covariance has no derivative in the weights; ask for form='primal'")


def _value(x: Tensor, w: Tensor | None, form: Polynomial, iterations: int, prenorm: Prenorm, postcomp: bool) -> Tensor:
    k, t = _normalized(_scaled(x, w), prenorm)
    y = _polynomial(k, form, iterations)
    return y * t.sqrt() if postcomp else y


def _adjoint(
    x: Tensor, w: Tensor | None, g: Tensor, form: Polynomial, iterations: int, prenorm: Prenorm, postcomp: bool
) -> Tensor:
    k, t = _normalized(_scaled(x, w), prenorm)
    gradient = _polynomial_adjoint(k, symmetrize(g), form, iterations)
    return _scaled_adjoint(_through_norm(gradient, k, t, prenorm, postcomp), w)


def _tangent(
    x: Tensor, w: Tensor | None, dx: Tensor, form: Polynomial, iterations: int, prenorm: Prenorm, postcomp: bool
) -> Tensor:
    k0, dk0 = _scaled(x, w), _scaled(dx, w)
    k, t = _normalized(k0, prenorm)
    r = reciprocal_or_zero(t).sqrt()
    direction = k if prenorm == "trace" else _times_gram(k)
    half_dt = inner(direction, dk0 * r)  # dt / (2 t)
    dk = dk0 * r - k * half_dt
    gram = _gram(k, form)
    if form == "primal":
        y, dy = newton_schulz_pair(gram, 2 * symmetrize(dk.mT @ k), iterations, "root")
    else:
        p, dp = newton_schulz_pair(gram, 2 * symmetrize(dk @ k.mT), iterations, "factor")
        y, dy = k.mT @ (p @ k), 2 * symmetrize(dk.mT @ (p @ k)) + k.mT @ (dp @ k)
    return (dy + y * half_dt) * t.sqrt() if postcomp else dy


class _Polynomial(Differentiable):
    """Primal and dual form. Only x and the weights are kept; the backward runs the iteration again."""

    @staticmethod
    def forward(
        x: Tensor, w: Tensor | None, form: Polynomial, iterations: int, prenorm: Prenorm, postcomp: bool
    ) -> Tensor:
        return _value(x, w, form, iterations, prenorm, postcomp)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, w, *ctx.options = inputs
        ctx.save_for_backward(x, w)
        ctx.save_for_forward(x, w)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        _constant_weights(ctx.needs_input_grad[1])
        x, w = ctx.saved_tensors
        with outside_autocast(g):
            return _adjoint(x, w, g, *ctx.options), None, None, None, None, None


class _PolynomialJvp(_Polynomial):
    @staticmethod
    def jvp(ctx: Any, dx: Tensor, dw: Tensor | None, *_: None) -> Tensor:
        _constant_weights(dw is not None)
        x, w = ctx.saved_tensors
        return _tangent(x, w, dx, *ctx.options)


_Polynomial.with_jvp = _PolynomialJvp


class _Spectral(Differentiable):
    """Spectral form, given K, t and the decomposition, which is kept.

    A derivative of the derivative goes through the polynomial instead.
    """

    @staticmethod
    def forward(
        x: Tensor, w: Tensor | None, k: Tensor, t: Tensor, eigenvalues: Tensor, u: Tensor, *options: Any
    ) -> Tensor:
        iterations, _, postcomp = options
        y = _spectral(k, eigenvalues, u, iterations)
        return y * t.sqrt() if postcomp else y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, w, _, _, eigenvalues, u, *ctx.options = inputs
        ctx.save_for_backward(x, w, eigenvalues, u)
        ctx.save_for_forward(x, w, eigenvalues, u)  # torch's vmap rule expects the same tensors in both

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        _constant_weights(ctx.needs_input_grad[1])
        x, w, eigenvalues, u = ctx.saved_tensors
        iterations, prenorm, postcomp = ctx.options
        with outside_autocast(g):
            if torch.is_grad_enabled() and not torch.compiler.is_compiling():
                dx = _adjoint(x, w, g, smaller(*x.shape[-2:]), iterations, prenorm, postcomp)
            else:
                k, t = _normalized(_scaled(x, w), prenorm)
                gradient = _spectral_adjoint(k, symmetrize(g), eigenvalues, u, iterations)
                dx = _scaled_adjoint(_through_norm(gradient, k, t, prenorm, postcomp), w)
        return dx, *[None] * 8


class _SpectralJvp(_Spectral):
    @staticmethod
    def jvp(ctx: Any, dx: Tensor, dw: Tensor | None, *_: None) -> Tensor:
        _constant_weights(dw is not None)
        x, w, _, _ = ctx.saved_tensors
        return _tangent(x, w, dx, smaller(*x.shape[-2:]), *ctx.options)


_Spectral.with_jvp = _SpectralJvp


@full_precision
def isqrt_covariance(
    x: Tensor,  # (..., n, c)
    *,
    iterations: int = 5,
    prenorm: Prenorm = "trace",
    postcomp: bool = True,
    mask: Tensor | None = None,  # (..., n) bool, True = keep
    weights: Tensor | None = None,  # (..., n)
    form: Form | Literal["auto"] = "auto",
) -> Tensor:  # (..., c, c)
    """The Newton-Schulz square root of the covariance of features: sqrtm_newton_schulz(covariance(x)), faster.

    Args:
        x: features, one row per position.
        iterations, prenorm, postcomp: see `sqrtm_newton_schulz`.
        mask, weights: see `covariance`.
        form: "primal" iterates on c x c matrices, "dual" on n x n ones, "spectral" goes through the eigenvalues of the
            smaller; all give the same result, and "auto" takes the cheapest. Only "primal" has a derivative in the
            weights ("auto" chooses it for weights that require grad).

    Shape: (..., n, c) -> (..., c, c).

    Reference: "Deep CNNs Meet Global Covariance Pooling", iSQRT-COV; the dual and spectral forms are ours.

    >>> import torch
    >>> x = torch.randn(2, 49, 64, dtype=torch.float64)
    >>> z = isqrt_covariance(x, form="dual")
    >>> torch.allclose(z, sqrtm_newton_schulz(covariance(x)))
    True
    """
    check_features(x)
    check_choice("form", form, ("auto", "primal", "dual", "spectral"))
    n, c = x.shape[-2:]
    needs_weight_gradient = weights is not None and weights.requires_grad
    if needs_weight_gradient and form in ("dual", "spectral"):
        raise ValueError(f"`form` must be 'primal' or 'auto' for weights that require grad; got {form!r}")
    weighted_primal = weights is not None and form == "primal"  # requires_grad is not seen inside vmap and jvp
    if needs_weight_gradient or weighted_primal or torch.compiler.is_exporting():
        sigma = covariance(x, mask=mask, weights=weights)
        return sqrtm_newton_schulz(sigma, iterations=iterations, prenorm=prenorm, postcomp=postcomp)
    chosen = choose_form(n, c, x.device.type) if form == "auto" else form
    check_iteration(iterations, prenorm, torch.float64 if chosen == "spectral" else x.dtype)
    x, w = keep_positions(x, mask, weights)
    shape = (*x.shape[:-2], c, c)
    x = x.reshape(-1, n, c)
    w = None if w is None else w.reshape(-1, n)
    if chosen == "spectral":
        k, t = _normalized(_scaled(x.detach(), None if w is None else w.detach()), prenorm)
        z = _Spectral.call(x, w, k, t, *_decompose(k), iterations, prenorm, postcomp)
    else:
        z = _Polynomial.call(x, w, chosen, iterations, prenorm, postcomp)
    return z.reshape(shape)
