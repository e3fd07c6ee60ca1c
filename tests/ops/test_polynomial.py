"""covpool.ops._polynomial: against plain sums of powers."""

import pytest
import torch

from covpool.ops._polynomial import polynomials
from ops.oracles import randn, relative_error


@pytest.mark.parametrize("degree", [*range(12), 17])
def test_equals_the_sum_of_powers(degree: int) -> None:
    a, p = randn(2, 4, 4) / 3, randn(degree + 1, seed=1).tolist()
    expected = sum(factor * torch.linalg.matrix_power(a, k) for k, factor in enumerate(p))
    (value,) = polynomials(a, p)
    assert relative_error(value, expected) <= 1e-13


def test_several_of_different_degrees_at_once() -> None:
    a = randn(3, 3)
    lists = [1.0, 2.0], [0.5, 0.0, -1.0, 3.0], [2.0]
    for value, p in zip(polynomials(a, *lists), lists, strict=True):
        expected = sum(factor * torch.linalg.matrix_power(a, k) for k, factor in enumerate(p))
        torch.testing.assert_close(value, expected)


def test_derivatives() -> None:
    a = randn(3, 3).requires_grad_()
    p = randn(11, seed=1).tolist()
    assert torch.autograd.gradcheck(lambda a: polynomials(a, p)[0], a, check_forward_ad=True)


@pytest.mark.parametrize("degree", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("zero", [False, True])
def test_without_a_derivative_the_value_is_the_same(degree: int, zero: bool) -> None:
    """Sums inside products and in place, for a matrix alone and for several leading dimensions."""
    p = randn(degree + 1, seed=1).tolist()
    if zero:
        p[1] = 0.0
    for shape in ((3, 3), (2, 1, 3, 3)):
        a = randn(*shape) / 3
        before = a.clone()
        (plain,) = polynomials(a.clone().requires_grad_(), p)
        (fused,) = polynomials(a, p)
        assert relative_error(fused, plain) <= 1e-14 and fused.shape == a.shape and torch.equal(a, before)
