import pytest
import torch

from covpool.ops.safe_division import one_if_zero, power_or_zero, reciprocal_or_zero

T = torch.tensor([0.0, -0.0, 4.0, torch.nan], dtype=torch.float64)


def test_one_if_zero() -> None:
    torch.testing.assert_close(one_if_zero(T), torch.tensor([1.0, 1, 4, torch.nan]).double(), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_reciprocal_is_zero_below_the_normal_numbers(dtype: torch.dtype) -> None:
    tiny = torch.finfo(dtype).tiny
    t = torch.tensor([0.0, tiny / 2, -tiny / 2, tiny, -4.0, torch.inf, torch.nan], dtype=dtype)
    expected = torch.tensor([0.0, 0.0, 0.0, 1 / tiny, -0.25, 0.0, torch.nan], dtype=dtype)
    torch.testing.assert_close(reciprocal_or_zero(t), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("alpha", [-0.5, 0.5, 2.0])
def test_power_is_zero_at_zero(alpha: float) -> None:
    expected = torch.tensor([0.0, 0.0, 4**alpha, torch.nan], dtype=torch.float64)
    torch.testing.assert_close(power_or_zero(T, alpha), expected, equal_nan=True)


def test_derivatives_vanish_at_zero() -> None:
    for function, slope in ((reciprocal_or_zero, -1 / 16), (lambda t: power_or_zero(t, 0.5), 0.25)):
        t = torch.tensor([0.0, 4.0], dtype=torch.float64, requires_grad=True)
        (dt,) = torch.autograd.grad(function(t).sum(), t)
        assert dt.tolist() == [0, slope]
