"""covpool.ops.powm_eigh: its derivatives, by finite differences and by the paper's own equations."""

import math

import pytest
import torch
from torch import Tensor

from cases import features, hard_matrices
from covpool.ops import covariance, powm_eigh
from ops.oracles import assert_gradient, finite_difference, gradient, randn, relative_error

ALPHAS = (0.3, 0.5, 0.7, 1.0, 1.3, 2.0)
A = hard_matrices()["distinct"]

every_alpha = pytest.mark.parametrize("alpha", ALPHAS)
every_normalization = pytest.mark.parametrize("normalization", [None, "spectral", "frobenius"])


def power(alpha: float | Tensor, normalization: str | None = None, **options: str):  # type: ignore[no-untyped-def]
    return lambda a: powm_eigh(a, alpha, normalization=normalization, **options)


@every_alpha
@every_normalization
def test_distinct_eigenvalues(alpha: float, normalization: str | None) -> None:
    assert_gradient(power(alpha, normalization), A, tol=1e-6)


@every_alpha
@pytest.mark.parametrize("normalization", [None, "frobenius"])
@pytest.mark.parametrize("name", ["repeated", "multiple_of_identity", "nearly_repeated", "order_one"])
def test_repeated_eigenvalues(name: str, alpha: float, normalization: str | None) -> None:
    assert_gradient(power(alpha, normalization), hard_matrices()[name], tol=1e-6)


@every_alpha
def test_multiple_of_the_identity_in_closed_form(alpha: float) -> None:
    """d(a^alpha)[H] = alpha c^(alpha - 1) H at a = c I."""
    a, g = hard_matrices()["multiple_of_identity"], randn(5, 5)
    expected = alpha * 2.5 ** (alpha - 1) * (g + g.T) / 2
    torch.testing.assert_close(gradient(power(alpha), a, g), expected)


@every_alpha
@pytest.mark.parametrize(
    ("n", "normalization"),
    [
        *((2, None), (2, "spectral"), (5, None), (5, "frobenius"), (8, "spectral")),
        *((8, "frobenius"), (9, None), (9, "spectral"), (20, "frobenius"), (20, None)),
    ],
)
def test_through_the_features(n: int, alpha: float, normalization: str | None) -> None:
    """For rank-deficient covariances (n <= 8 channels) and others."""
    x = features(1, n, 8)
    assert_gradient(lambda x: power(alpha, normalization)(covariance(x)), x, tol=1e-6)


@every_alpha
@every_normalization
@pytest.mark.parametrize("dead", [2, 7])
def test_dead_channels_are_finite_and_right_in_the_living_ones(
    dead: int, alpha: float, normalization: str | None
) -> None:
    """Exactly equal zero eigenvalues, where torch's own eigh gives NaN."""
    x, g = features(1, 20, 8), randn(1, 8, 8)
    x[..., :dead] = 0
    dx = gradient(lambda x: power(alpha, normalization)(covariance(x)), x, g)
    living = gradient(lambda x: power(alpha, normalization)(covariance(x)), x[..., dead:], g[:, dead:, dead:])
    assert dx.isfinite().all()
    torch.testing.assert_close(dx[..., dead:], living)


@every_alpha
@every_normalization
def test_zero_matrix_is_finite(alpha: float, normalization: str | None) -> None:
    a = torch.zeros(4, 4, dtype=torch.float64)
    assert gradient(power(alpha, normalization), a, randn(4, 4)).isfinite().all()


@every_alpha
def test_euler_identity(alpha: float) -> None:
    """<dl/dSigma, Sigma> = alpha <G, Z>."""
    g = randn(6, 6)
    da = gradient(power(alpha), A, g)
    torch.testing.assert_close((da * A).sum(), alpha * (g * powm_eigh(A, alpha)).sum())


@every_alpha
@pytest.mark.parametrize("normalization", ["spectral", "frobenius"])
def test_euler_identity_of_scale_invariance(alpha: float, normalization: str) -> None:
    """<dl/dSigma, Sigma> = 0."""
    da = gradient(power(alpha, normalization), A, randn(6, 6))
    assert abs(float((da * A).sum())) <= 1e-12


def test_subgradient_at_a_multiple_largest_eigenvalue() -> None:
    """At a = c I: (alpha / c) (sym(G) - tr(G) u u^T) with one of the top eigenvectors u."""
    c, alpha, g = 2.5, 0.7, randn(5, 5)
    da = gradient(power(alpha, "spectral"), c * torch.eye(5).double(), g)
    rest = (g + g.T) / 2 - da * c / alpha  # tr(G) u u^T
    torch.testing.assert_close(rest.trace(), g.trace())
    assert torch.linalg.matrix_rank(rest, atol=1e-10) == 1


def papers_gradient(a: Tensor, g: Tensor, alpha: float, normalization: str | None) -> Tensor:
    """dl/dSigma by the paper's equations: dl/dU, dl/dLambda, and K_ij = 1 / (l_i - l_j), symmetrised."""
    eigenvalues, u = (t.flip(-1) for t in torch.linalg.eigh(a))
    powers = eigenvalues**alpha
    slopes = alpha * eigenvalues ** (alpha - 1)
    h = u.T @ g @ u
    if normalization is None:
        f, dl = powers, slopes * h.diagonal()
    elif normalization == "spectral":
        f = powers / powers[0]
        dl = slopes / powers[0] * h.diagonal()
        dl[0] -= alpha / eigenvalues[0] * (f * h.diagonal()).sum()
    else:
        norm = powers.norm()
        f = powers / norm
        dl = (slopes * h.diagonal() - alpha * eigenvalues ** (2 * alpha - 1) / norm * (f * h.diagonal()).sum()) / norm
    du = (g + g.T) @ u @ torch.diag(f)
    k = 1 / (eigenvalues[:, None] - eigenvalues[None] + torch.diag(torch.full_like(eigenvalues, torch.inf)))
    da = u @ (k.T * (u.T @ du) + torch.diag(dl)) @ u.T
    return (da + da.T) / 2


@every_alpha
@every_normalization
def test_equals_the_papers_equations_for_distinct_eigenvalues(alpha: float, normalization: str | None) -> None:
    g = randn(6, 6)
    da = gradient(power(alpha, normalization), A, g)
    assert relative_error(da, papers_gradient(A, g, alpha, normalization)) <= 1e-11


# --- the released code's gradient -----------------------------------------------------------------


def cosine_of_released(n: int, alpha: float = 0.5) -> float:
    x, g = features(1, n, 8), randn(1, 8, 8)
    exact, released = (
        gradient(lambda x, mode=mode: powm_eigh(covariance(x), alpha, null_gradient=mode), x, g)
        for mode in ("exact", "released")
    )
    return float(torch.cosine_similarity(exact.flatten(), released.flatten(), 0))


@pytest.mark.parametrize("alpha", [0.3, 0.5, 0.7])
def test_released_gradient_is_another_one_for_few_positions(alpha: float) -> None:
    """It lacks the block between range and null space, here for d = 8 and M = 5."""
    assert 0 < cosine_of_released(5, alpha) < 0.9


@pytest.mark.parametrize("n", [9, 20])
def test_released_gradient_is_exact_for_many_positions(n: int) -> None:
    assert cosine_of_released(n) == pytest.approx(1, abs=1e-14)


# --- alpha ----------------------------------------------------------------------------------------


@every_normalization
@pytest.mark.parametrize("shape", [(), (1,)])
def test_gradient_in_alpha(shape: tuple[int, ...], normalization: str | None) -> None:
    a = torch.stack([A, torch.diag(torch.tensor([3.0, 3, 1, 0, 0, 0], dtype=torch.float64))])
    alpha = torch.full(shape, 0.6, dtype=torch.float64)
    assert_gradient(lambda alpha: powm_eigh(a, alpha, normalization=normalization), alpha)
    _, dz = torch.func.jvp(lambda t: powm_eigh(a, t, normalization=normalization), (alpha,), (torch.ones_like(alpha),))
    numeric = finite_difference(lambda t: powm_eigh(a, t, normalization=normalization), alpha, torch.ones_like(alpha))
    assert relative_error(dz, numeric) <= 1e-7


def test_gradient_in_alpha_of_a_number() -> None:
    alpha = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
    (dalpha,) = torch.autograd.grad(powm_eigh(torch.tensor([[3.0]]).double(), alpha).sum(), alpha)
    assert float(dalpha) == pytest.approx(3**0.6 * math.log(3))


# --- transforms -----------------------------------------------------------------------------------


@every_normalization
def test_gradcheck_forward_and_batched(normalization: str | None) -> None:
    a = torch.stack([A[:3, :3], hard_matrices()["distinct"][1:4, 1:4]]).requires_grad_()
    assert torch.autograd.gradcheck(power(0.7, normalization), a, check_forward_ad=True, check_batched_grad=True)


@every_normalization
def test_vmap_over_matrices_and_alphas(normalization: str | None) -> None:
    a, alphas = torch.stack([A, 2 * A]), torch.tensor([0.3, 1.3], dtype=torch.float64)
    mapped = torch.vmap(lambda a, t: powm_eigh(a, t, normalization=normalization))(a, alphas)
    for i in range(2):
        torch.testing.assert_close(mapped[i], powm_eigh(a[i], float(alphas[i]), normalization=normalization))


def test_compiles_with_a_learnable_alpha() -> None:
    torch.compiler.reset()
    alpha, plain_alpha = (torch.tensor(0.6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    z = torch.compile(lambda a, t: powm_eigh(a, t), fullgraph=True, backend="aot_eager")(A, alpha)
    expected = powm_eigh(A, plain_alpha)
    torch.testing.assert_close(z, expected)
    torch.testing.assert_close(torch.autograd.grad(z.sum(), alpha), torch.autograd.grad(expected.sum(), plain_alpha))
