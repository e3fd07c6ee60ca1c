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
