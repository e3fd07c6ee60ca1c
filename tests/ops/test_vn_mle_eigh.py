"""covpool.ops.vn_mle_eigh against the minimization problem that it solves."""

import pytest
import torch
from torch import Tensor

from cases import features, hard_features, hard_matrices, spd
from covpool.ops import covariance, powm_eigh, vn_mle_eigh
from ops.oracles import assert_gradient, randn, refuses, rotation

GAMMAS = (0.3, 0.75, 1.0, 2.0)

every_gamma = pytest.mark.parametrize("gamma", GAMMAS)


def logarithm(p: Tensor) -> Tensor:
    eigenvalues, u = torch.linalg.eigh(p)
    return u @ torch.diag(eigenvalues.log()) @ u.T


def objective(p: Tensor, s: Tensor, gamma: float) -> Tensor:
    """log|P| + tr(P^-1 S) + gamma tr(P - log P - I)."""
    divergence = torch.trace(p - logarithm(p)) - len(p)
    return torch.logdet(p) + torch.trace(torch.linalg.solve(p, s)) + gamma * divergence


@every_gamma
def test_it_is_the_minimum(gamma: float) -> None:
    """The result is a stationary point, and the objective grows in every direction."""
    s = spd(4.0, 2.5, 1.3, 0.6, 0.2)
    p = vn_mle_eigh(s, gamma).requires_grad_()
    value = objective(p, s, gamma)
    (slope,) = torch.autograd.grad(value, p)
    assert slope.abs().max() <= 1e-10
    for seed in range(5):
        step = randn(5, 5, seed=seed) * 1e-2
        assert objective((p + step + step.T).detach(), s, gamma) > value


def test_gamma_one_is_the_square_root_with_the_known_minimum() -> None:
    s = spd(4.0, 2.5, 1.3, 0.6, 0.2)
    p = vn_mle_eigh(s, 1.0)
    torch.testing.assert_close(p @ p, s)
    torch.testing.assert_close(objective(p, s, 1.0), 2 * torch.trace(p) - 5)


@every_gamma
@pytest.mark.parametrize("name", hard_matrices())
def test_every_eigenvalue_solves_its_quadratic_equation(name: str, gamma: float) -> None:
    """gamma p^2 + (1 - gamma) p = l, also for the smallest eigenvalues."""
    a = hard_matrices()[name]
    p = torch.linalg.eigvalsh(vn_mle_eigh(a, gamma))
    torch.testing.assert_close(gamma * p**2 + (1 - gamma) * p, torch.linalg.eigvalsh(a), rtol=1e-10, atol=1e-14)


def test_small_eigenvalues_keep_their_digits() -> None:
    """Below one half the map is nearly l / (1 - gamma) there; the plain formula loses it in the round-off of b."""
    values = torch.tensor([1e-12, 1e-9, 1e-6])
    found = vn_mle_eigh(torch.diag(values), 0.5, eps=0.0).diagonal()
    torch.testing.assert_close(found, values * 2, rtol=1e-5, atol=0)


def test_limits_and_rotation() -> None:
    s, q = spd(4.0, 2.5, 1.3, 0.6, 0.2), rotation(5)
    torch.testing.assert_close(vn_mle_eigh(s, 1e-9), s, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(vn_mle_eigh(s, 1e9), torch.eye(5).double(), rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(vn_mle_eigh(q @ s @ q.T, 0.75), q @ vn_mle_eigh(s, 0.75) @ q.T)


@every_gamma
@pytest.mark.parametrize("n", [3, 20])
def test_gradient_through_the_features_also_of_a_singular_covariance(n: int, gamma: float) -> None:
    assert_gradient(lambda x: vn_mle_eigh(covariance(x), gamma), features(2, n, 6), step=1e-5)


@every_gamma
@pytest.mark.parametrize("name", ["distinct", "repeated", "multiple_of_identity", "nearly_repeated"])
def test_gradient_on_hard_spectra(name: str, gamma: float) -> None:
    assert_gradient(lambda a: vn_mle_eigh((a + a.mT) / 2, gamma), hard_matrices()[name])


@every_gamma
@pytest.mark.parametrize("case", hard_features())
def test_finite_on_hard_features_with_finite_gradients(case: str, gamma: float) -> None:
    x = hard_features()[case].requires_grad_()
    z = vn_mle_eigh(covariance(x), gamma)
    (dx,) = torch.autograd.grad(z.sum(), x)
    assert z.isfinite().all() and dx.isfinite().all()


def test_at_one_null_directions_are_those_of_the_power() -> None:
    a = covariance(features(2, 4, 7)).requires_grad_()
    g = randn(2, 7, 7, seed=1)
    found, expected = vn_mle_eigh(a, 1.0), powm_eigh(a, 0.5)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found, a, g), torch.autograd.grad(expected, a, g))


def test_empty_batch() -> None:
    assert vn_mle_eigh(torch.zeros(0, 3, 3), 0.75).shape == (0, 3, 3)


@pytest.mark.parametrize("gamma", [0.0, -1.0, float("inf"), float("nan")])
def test_wrong_gamma_is_refused(gamma: float) -> None:
    with refuses(ValueError, "`gamma` must be positive"):
        vn_mle_eigh(torch.eye(3), gamma)
