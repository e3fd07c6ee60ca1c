"""Brownian distance covariance against numpy, entry by entry."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import covpool
from cases import features


def oracle(x: np.ndarray, t: float) -> np.ndarray:  # (n, c) -> (c (c + 1) / 2,)
    """Compute the vector of one image as printed, with all distances and means taken entry by entry."""
    n, c = x.shape
    squares = [[sum((x[:, i] - x[:, j]) ** 2) / n for j in range(c)] for i in range(c)]
    a = np.array([[math.sqrt(math.exp(t) * square + 1e-5) for square in row] for row in squares])
    means = [sum(row) / c for row in a]
    return np.array([a[i, j] - means[i] - means[j] + sum(means) / c for i in range(c) for j in range(i, c)])


@pytest.mark.parametrize(("n", "c", "t"), [(1, 3, None), (9, 1, None), (49, 5, None), (4, 8, 0.3), (30, 6, -2.0)])
def test_equals_the_oracle(n: int, c: int, t: float | None) -> None:
    x, pool = features(2, n, c) + 3, covpool.create_pool("bdc", c).double()
    if t is not None:
        torch.nn.init.constant_(pool.temperature, t)
    expected = [oracle(image.numpy(), pool.temperature.item()) for image in x]
    np.testing.assert_allclose(pool(x).detach(), expected, rtol=1e-10, atol=1e-12)


def test_starts_from_the_temperature_of_the_released_code() -> None:
    h, w = 10, 10  # the released code starts from log(1 / (2 h w)) and does not divide by the number of positions
    assert math.exp(covpool.create_pool("bdc", 4).temperature.item()) / (h * w) == pytest.approx(1 / (2 * h * w))


def test_rows_sum_to_zero() -> None:
    z = covpool.create_pool("bdc", 7).double()(features(3, 20, 7))
    torch.testing.assert_close(covpool.ops.unvech(z).sum(-1), torch.zeros(3, 7, dtype=torch.float64))


def test_a_value_added_to_all_channels_of_a_position_changes_nothing() -> None:
    x, pool = features(2, 20, 5), covpool.create_pool("bdc", 5).double()
    torch.testing.assert_close(pool(x + torch.randn(2, 20, 1, dtype=x.dtype)), pool(x))


def test_gradcheck() -> None:
    pool = covpool.create_pool("bdc", 4).double()

    def pooled(x: Tensor, t: Tensor) -> Tensor:
        return torch.func.functional_call(pool, {"temperature": t}, (x,))

    assert torch.autograd.gradcheck(pooled, (features(2, 5, 4).requires_grad_(), pool.temperature))
    assert torch.autograd.gradgradcheck(pooled, (features(1, 5, 4).requires_grad_(), pool.temperature))


@pytest.mark.parametrize("scale", [0.0, 1e-8, 1.0, 1e8])
def test_equal_channels_have_finite_gradients(scale: float) -> None:
    x = (scale * torch.randn(2, 9, 1)).expand(2, 9, 4).clone().requires_grad_()
    z = covpool.create_pool("bdc", 4)(x)
    (gradient,) = torch.autograd.grad(z.square().sum() + z.sum(), x)
    assert (z == 0).all() and gradient.isfinite().all()
