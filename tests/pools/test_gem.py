import pytest
import torch

from cases import features
from covpool import create_pool


@pytest.mark.parametrize("p", [0.5, 1.0, 3.0, 7.0])
def test_equals_the_formula(p: float) -> None:
    x = features(2, 20, 6).abs() + 0.01
    expected = (x**p).mean(1) ** (1 / p)
    torch.testing.assert_close(create_pool("gem", 6, p=p).double()(x), expected)


def test_lies_between_average_and_maximum() -> None:
    x = features(2, 20, 6).abs() + 0.01
    average, largest = x.mean(1), x.amax(1)
    torch.testing.assert_close(create_pool("gem", 6, p=1.0).double()(x), average)
    torch.testing.assert_close(create_pool("gem", 6, p=2000.0).double()(x), largest, rtol=2e-3, atol=0)


def test_features_below_the_floor_are_raised_to_it() -> None:
    z = create_pool("gem", 2).double()(torch.tensor([[[-5.0, 0.0], [-1.0, 1e-7]]], dtype=torch.float64))
    torch.testing.assert_close(z, torch.full((1, 2), 1e-6, dtype=torch.float64))


def test_gradients_of_x_and_p() -> None:
    x = (features(2, 5, 3).abs() + 0.1).requires_grad_()
    pool = create_pool("gem", 3).double()
    p = pool.p.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda v, q: torch.func.functional_call(pool, {"p": q}, v), (x, p))


def test_p_is_a_parameter_that_can_be_frozen() -> None:
    assert create_pool("gem", 4).p.requires_grad
    assert not create_pool("gem", 4, learn_p=False).p.requires_grad


def test_large_features_do_not_overflow() -> None:
    x = features(2, 8, 4, dtype=torch.float32).abs() * 1e20
    torch.testing.assert_close(create_pool("gem", 4)(x), create_pool("gem", 4)(x * 1e-20) * 1e20)


def test_p_must_be_positive() -> None:
    with pytest.raises(ValueError, match="`p` must be positive; got 0"):
        create_pool("gem", 4, p=0)
