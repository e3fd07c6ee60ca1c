"""covpool.kernels.precision: operands are scaled into the range of fp16."""

import math

import pytest
import torch

from covpool.kernels.precision import PRECISIONS, mode, slope_bound, stored_slope, takes
from kernels.oracles import LARGEST_ERROR


@pytest.mark.parametrize("iterations", [1, 2, 5, 9])
def test_slope_bound_is_the_slope_of_the_factor_at_eigenvalue_zero(iterations: int) -> None:
    eigenvalue = torch.zeros((), dtype=torch.float64, requires_grad=True)
    y, p = eigenvalue, torch.ones((), dtype=torch.float64)
    for _ in range(iterations):
        half = 1.5 - 0.5 * p * y
        y, p = y * half, half * p
    (slope,) = torch.autograd.grad(p, eigenvalue)
    assert slope_bound(iterations) == pytest.approx(-float(slope), rel=1e-12)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("iterations", [3, 4, 5, 6, 7])
def test_scales_are_powers_of_two_that_keep_the_derivative_in_range(precision: str, iterations: int) -> None:
    m = mode(precision, iterations)
    for scale in (m.k_scale, m.y_scale, m.direction_scale):
        assert math.log2(scale).is_integer()
    assert m.direction_scale * stored_slope(iterations) < torch.finfo(torch.float16).max


def test_storage_and_parts() -> None:
    assert {p: (mode(p, 5).storage, mode(p, 5).parts) for p in PRECISIONS} == {
        "float32": (torch.float16, 2),
        "tf32": (torch.float16, 1),
        "bf16": (torch.bfloat16, 1),
    }
    assert set(LARGEST_ERROR) == set(PRECISIONS)


@pytest.mark.parametrize("iterations", [0, 1, 2, 8, 20])
def test_refuses_too_many_and_too_few_iterations(iterations: int) -> None:
    assert not takes(iterations)
    with pytest.raises(ValueError, match=f"3 to 7 iterations; got {iterations}"):
        mode("tf32", iterations)
