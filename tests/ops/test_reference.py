"""covpool.ops.reference, the slow and exact versions, against numpy, scipy and closed forms."""

import numpy as np
import pytest
import scipy.linalg
import torch

from cases import features, spd
from ops import reference
from ops.oracles import randn, relative_error, value_and_gradient


@pytest.mark.parametrize("n", [1, 4, 9])
def test_covariance_is_numpys_biased_one(n: int) -> None:
    x = randn(n, 3)
    np.testing.assert_allclose(reference.covariance(x), np.cov(x.numpy().T, bias=True), atol=1e-15)


def test_weighted_covariance_is_numpys() -> None:
    x, w = randn(9, 3), torch.rand(9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = np.cov(x.numpy().T, bias=True, aweights=w.numpy())
    np.testing.assert_allclose(reference.covariance(x, w), expected, atol=1e-14)


def test_second_moment() -> None:
    x = randn(9, 3)
    np.testing.assert_allclose(reference.covariance(x, centered=False), x.numpy().T @ x.numpy() / 9, atol=1e-15)


@pytest.mark.parametrize("alpha", [0.3, 0.5, 0.7, 1, 1.3, 2])
def test_power_is_scipys(alpha: float) -> None:
    a = spd(3.0, 1.0, 0.2, 0.01)
    expected = scipy.linalg.fractional_matrix_power(a.numpy(), alpha)
    np.testing.assert_allclose(reference.power(a, alpha), expected, atol=1e-12)


def test_power_of_a_singular_matrix() -> None:
    a = torch.diag(torch.tensor([4.0, 1e-17, 0.0], dtype=torch.float64))
    torch.testing.assert_close(reference.power(a, 0.5), torch.diag(torch.tensor([2.0, 0, 0], dtype=torch.float64)))


def test_spectral_of_the_exponential_is_scipys() -> None:
    a = spd(3.0, 1.0, 0.2)
    np.testing.assert_allclose(reference.spectral(a, np.exp), scipy.linalg.expm(a.numpy()), rtol=1e-12)


@pytest.mark.parametrize("prenorm", ["trace", "frobenius"])
@pytest.mark.parametrize("postcomp", [True, False])
@pytest.mark.parametrize("iterations", [1, 2, 5, 10])
def test_iterated_and_spectral_iterations_agree(iterations: int, prenorm: str, postcomp: bool) -> None:
    a = spd(3.0, 1.0, 0.2, 0.0)
    spectral = reference.isqrt_spectral(a, iterations, prenorm, postcomp)
    assert relative_error(reference.isqrt_iterated(a, iterations, prenorm, postcomp), spectral) <= 1e-13


def test_one_iteration_in_closed_form() -> None:
    """For N = 1, Z = sqrt(t) (3 A - A^2) / 2."""
    a = spd(3.0, 1.0, 0.2)
    t = a.trace()
    n = a / t
    torch.testing.assert_close(reference.isqrt_spectral(a, 1), t.sqrt() * (3 * n - n @ n) / 2)


@pytest.mark.parametrize("iterations", [1, 2, 3, 5])
def test_literal_layer_is_autograd_of_the_iteration(iterations: int) -> None:
    """The equations of the paper's Appendix I are right, for upstream gradients that are not symmetric."""
    x = features(2, 12, 5)

    def plain(x: torch.Tensor) -> torch.Tensor:
        xc = x - x.mean(-2, keepdim=True)
        return reference.isqrt_iterated(xc.mT @ xc / x.shape[-2], iterations)

    z, dx = value_and_gradient(lambda x: reference.isqrt_literal(x, iterations), x)
    expected, expected_dx = value_and_gradient(plain, x)
    assert relative_error(z, expected) <= 1e-13
    assert relative_error(dx, expected_dx) <= 1e-12
