"""covpool.ops.sqrtm_pade: the coefficients from first principles, the value against scipy. Derivatives are in
test_approximate_root.py."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.interpolate
import scipy.linalg
import torch

from cases import features, spd
from covpool.ops import covariance, sqrtm_pade
from covpool.ops.sqrtm_pade import pade_coefficients
from ops import reference
from ops.oracles import refuses, relative_error

ORDERS = (1, 2, 3, 5, 7)


def taylor(degree: int) -> list[Fraction]:
    """Of sqrt(1 - w): c_k with (sum_k c_k w^k)^2 = 1 - w, one after the other."""
    c = [Fraction(1)]
    for k in range(1, degree + 1):
        target = Fraction(-1) if k == 1 else Fraction(0)
        c.append((target - sum(c[i] * c[k - i] for i in range(1, k))) / 2)
    return c


def solve(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """Gauss-Jordan elimination in exact fractions."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i in range(len(rows)):
        pivot = next(j for j in range(i, len(rows)) if rows[j][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for j in range(len(rows)):
            if j != i:
                rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [row[-1] for row in rows]


def pade(order: int) -> tuple[list[Fraction], list[Fraction]]:
    """p and q with p(w) - q(w) sqrt(1 - w) = O(w^(2 order + 1)), q_0 = 1: the Hankel system of the Taylor series."""
    c = taylor(2 * order)
    hankel = [[c[order + i - j] for j in range(1, order + 1)] for i in range(1, order + 1)]
    q = [Fraction(1), *solve(hankel, [-c[order + i] for i in range(1, order + 1)])]
    return [sum((q[j] * c[i - j] for j in range(i + 1)), Fraction(0)) for i in range(order + 1)], q


def value(coefficients: list[Fraction], w: Fraction) -> Fraction:
    return sum((factor * w**k for k, factor in enumerate(coefficients)), Fraction(0))


@pytest.mark.parametrize("order", ORDERS)
def test_coefficients_are_those_of_the_pade_approximant(order: int) -> None:
    """p / q in powers of w = 1 - a is the fraction P / Q in powers of a: equal at more points than their degree."""
    (p, q), (big_p, big_q) = pade(order), pade_coefficients(order)
    for i in range(4 * order + 2):
        a = Fraction(i, 3)
        left = value(p, 1 - a) * sum(c * a**k for k, c in enumerate(big_q))
        assert left == value(q, 1 - a) * sum(c * a**k for k, c in enumerate(big_p))


@pytest.mark.parametrize("order", ORDERS)
def test_scipys_approximant_of_the_same_series(order: int) -> None:
    p, q = scipy.interpolate.pade([float(c) for c in taylor(2 * order)], order)
    for a in (0.0, 0.01, 0.3, 1.0):
        z = sqrtm_pade(torch.diag(torch.tensor([1.0, a], dtype=torch.float64)), order=order)
        t = np.hypot(1, a)
        expected = np.sqrt(t) * p(1 - a / t) / q(1 - a / t)
        assert abs(float(z[1, 1]) - expected) <= 1e-9


@pytest.mark.parametrize("n", [4, 40])
@pytest.mark.parametrize("order", ORDERS)
def test_value_by_eigen_decomposition(order: int, n: int) -> None:
    a = covariance(features(1, n, 8))[0]
    p, q = pade(order)
    t = float(a.norm())

    def scalar(eigenvalue: float) -> float:
        w = 1 - Fraction(max(eigenvalue, 0) / t)
        return float(value(p, w) / value(q, w)) * t**0.5

    assert relative_error(sqrtm_pade(a, order=order), reference.spectral(a, scalar)) <= 1e-12


def test_converges_to_scipys_square_root() -> None:
    a = spd(4.0, 2.5, 1.3, 0.6, 0.2)
    root = torch.from_numpy(scipy.linalg.sqrtm(a.numpy()).real)
    errors = [relative_error(sqrtm_pade(a, order=order), root) for order in (1, 3, 5, 10, 20)]
    assert errors == sorted(errors, reverse=True)
    assert errors[2] < 1e-2 and errors[-1] < 1e-6


@pytest.mark.parametrize("order", ORDERS)
def test_a_zero_eigenvalue_becomes_one_over_the_number_of_coefficients(order: int) -> None:
    a = torch.diag(torch.tensor([1.0, 0.0], dtype=torch.float64))
    z = sqrtm_pade(a, order=order)
    torch.testing.assert_close(z, torch.diag(torch.tensor([1.0, 1 / (2 * order + 1)], dtype=torch.float64)))


def test_refuses_no_order() -> None:
    with refuses(ValueError, "`order`", "positive", "0"):
        sqrtm_pade(torch.eye(2), order=0)
