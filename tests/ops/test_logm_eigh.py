"""covpool.ops.logm_eigh."""

import numpy as np
import pytest
import scipy.linalg
import torch

from cases import CHANNELS, features, hard_matrices
from covpool.ops import covariance, logm_eigh
from ops.oracles import assert_gradient, gradient, randn, refuses, relative_error, rotation

A = hard_matrices()["distinct"]


@pytest.mark.parametrize("c", CHANNELS)
@pytest.mark.parametrize("eps", [0.0, 1e-3])
def test_equals_scipys_logarithm(c: int, eps: float) -> None:
    m = randn(c, c)
    a = m @ m.T / c + 0.1 * torch.eye(c, dtype=torch.float64)
    expected = torch.from_numpy(scipy.linalg.logm(a.numpy() + eps * np.eye(c)).real)
    assert relative_error(logm_eigh(a, eps=eps), expected) <= 1e-10


@pytest.mark.parametrize("name", hard_matrices())
def test_exponential_of_the_logarithm(name: str) -> None:
    a = hard_matrices()[name]
    assert relative_error(torch.matrix_exp(logm_eigh(a, eps=0.0)), a) <= 1e-12


def test_diagonal_with_zeros_rests_on_eps() -> None:
    a = torch.diag(torch.tensor([2.0, 0.0], dtype=torch.float64))
    expected = torch.diag(torch.tensor([2.001, 0.001], dtype=torch.float64).log())
    torch.testing.assert_close(logm_eigh(a), expected)


def test_equivariance() -> None:
    q = rotation(6)
    torch.testing.assert_close(logm_eigh(q @ A @ q.T), q @ logm_eigh(A) @ q.T)


def test_scale_adds_a_multiple_of_the_identity() -> None:
    eye = torch.eye(6, dtype=torch.float64)
    torch.testing.assert_close(logm_eigh(3 * A, eps=0.0), logm_eigh(A, eps=0.0) + np.log(3) * eye)


def test_euler_identity() -> None:
    """<dl/dSigma, Sigma> = tr(G), from log(s Sigma) = log(Sigma) + log(s) I."""
    g = randn(6, 6)
    da = gradient(lambda a: logm_eigh(a, eps=0.0), A, g)
    torch.testing.assert_close((da * A).sum(), g.trace())


@pytest.mark.parametrize("name", ["distinct", "repeated", "multiple_of_identity", "nearly_repeated", "order_one"])
def test_gradient_on_hard_spectra(name: str) -> None:
    assert_gradient(logm_eigh, hard_matrices()[name], tol=1e-6)


def test_gradient_at_a_multiple_of_the_identity_in_closed_form() -> None:
    g = randn(5, 5)
    da = gradient(lambda a: logm_eigh(a, eps=0.5), hard_matrices()["multiple_of_identity"], g)
    torch.testing.assert_close(da, (g + g.T) / 6)


@pytest.mark.parametrize("n", [3, 8, 20])
def test_gradient_through_the_features(n: int) -> None:
    assert_gradient(lambda x: logm_eigh(covariance(x)), features(1, n, 8), tol=1e-6)


def test_zero_matrix() -> None:
    a = torch.zeros(3, 3)
    torch.testing.assert_close(logm_eigh(a), torch.eye(3) * np.log(1e-3))
    torch.testing.assert_close(gradient(logm_eigh, a, torch.ones(3, 3)), torch.full((3, 3), 1e3))


def test_gradient_is_finite_where_eigenvalues_differ_by_twenty_orders() -> None:
    """The eigenvalues are 1e16 and 0 + 1e-3: their ratio is below the spacing of float32 at one."""
    a = torch.diag(torch.tensor([1e16, 1e16, 0.0]))
    da = gradient(logm_eigh, a, torch.ones(3, 3))
    assert da.isfinite().all()
    assert float(da[0, 2]) == pytest.approx(np.log(1e19) / 1e16, rel=1e-5)


def test_negative_round_off_is_zero_and_a_negative_eigenvalue_is_not_hidden() -> None:
    tiny = torch.diag(torch.tensor([1.0, -1e-17], dtype=torch.float64))
    torch.testing.assert_close(logm_eigh(tiny).diagonal(), torch.tensor([1.001, 1e-3], dtype=torch.float64).log())
    assert logm_eigh(torch.diag(torch.tensor([1.0, -0.5]))).isnan().any()


def test_gradcheck_forward_and_batched() -> None:
    a = torch.stack([A[:3, :3], A[1:4, 1:4]]).requires_grad_()
    assert torch.autograd.gradcheck(logm_eigh, a, check_forward_ad=True, check_batched_grad=True)


class TestReleasedNullGradient:
    def test_value_is_the_same(self) -> None:
        sigma = covariance(features(1, 4, 7))
        assert torch.equal(logm_eigh(sigma, null_gradient="released"), logm_eigh(sigma))

    def test_it_is_the_exact_one_of_a_regular_matrix(self) -> None:
        g = randn(6, 6)
        found = gradient(lambda a: logm_eigh(a, null_gradient="released"), A, g)
        torch.testing.assert_close(found, gradient(logm_eigh, A, g))

    def test_of_a_singular_matrix_it_has_the_block_of_the_range_alone(self) -> None:
        a, g = torch.diag(torch.tensor([2.0, 1.0, 0.0], dtype=torch.float64)), randn(3, 3)
        found = gradient(lambda a: logm_eigh(a, null_gradient="released"), a, g)
        exact = gradient(logm_eigh, a, g)
        torch.testing.assert_close(found[:2, :2], exact[:2, :2])
        assert (found[2] == 0).all() and (found[:, 2] == 0).all() and (exact[2].abs() > 0.1).all()


def test_refusals_name_what_came() -> None:
    with refuses(ValueError, "`a`", "(2, 3)"):
        logm_eigh(torch.ones(2, 3))
    with refuses(ValueError, "`eps`", "negative", "-0.1"):
        logm_eigh(A, eps=-0.1)
    with refuses(ValueError, "`null_gradient`", "none"):
        logm_eigh(A, null_gradient="none")  # type: ignore[arg-type]
    with refuses(TypeError, "`a`", "int64"):
        logm_eigh(torch.ones(2, 2, dtype=torch.long))
