"""covpool.ops.sqrtm_taylor: the coefficients and the value. Derivatives are in test_approximate_root.py."""

import pytest
import scipy.linalg
import scipy.special
import torch

from cases import features, spd
from covpool.ops import covariance, sqrtm_taylor
from covpool.ops.sqrtm_taylor import taylor_coefficients
from ops import reference
from ops.oracles import refuses, relative_error

DEGREES = (1, 2, 5, 10, 17)


def test_coefficients_are_binomial() -> None:
    expected = [(-1) ** k * scipy.special.binom(0.5, k) for k in range(21)]
    assert taylor_coefficients(20) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("n", [4, 40])
@pytest.mark.parametrize("degree", DEGREES)
def test_value_by_eigen_decomposition(degree: int, n: int) -> None:
    a = covariance(features(1, n, 8))[0]
    t = float(a.norm())

    def scalar(eigenvalue: float) -> float:
        w = 1 - max(eigenvalue, 0) / t
        return t**0.5 * float(sum((-w) ** k * scipy.special.binom(0.5, k) for k in range(degree + 1)))

    assert relative_error(sqrtm_taylor(a, degree=degree), reference.spectral(a, scalar)) <= 1e-12


def test_converges_to_scipys_square_root_from_above() -> None:
    a = spd(4.0, 2.5, 1.3, 0.6, 0.2)
    root = torch.from_numpy(scipy.linalg.sqrtm(a.numpy()).real)
    results = [sqrtm_taylor(a, degree=degree) for degree in (1, 5, 10, 50, 400)]
    errors = [relative_error(z, root) for z in results]
    assert errors == sorted(errors, reverse=True)
    assert errors[2] < 0.1 and errors[-1] < 1e-6
    assert all(torch.linalg.eigvalsh(z - root).min() > -1e-9 for z in results)


def test_a_zero_eigenvalue_becomes_what_the_docs_say() -> None:
    z = sqrtm_taylor(torch.diag(torch.tensor([1.0, 0.0], dtype=torch.float64)))
    assert float(z[1, 1]) == pytest.approx(0.176, abs=5e-4)
    assert float(z[0, 0]) == 1


def test_refuses_no_degree() -> None:
    with refuses(ValueError, "`degree`", "positive", "0"):
        sqrtm_taylor(torch.eye(2), degree=0)
