"""covpool.ops.cross_covariance against numpy's covariance of both feature sets together."""

import numpy as np
import pytest
import torch
from torch import Tensor

from cases import features
from covpool.ops import cross_covariance
from ops.oracles import randn, refuses


def direct(x: Tensor, y: Tensor) -> Tensor:
    """The off-diagonal block of the covariance of (x, y), item by item."""
    c = x.shape[-1]
    blocks = [np.cov(i.numpy().T, j.numpy().T, bias=True)[:c, c:] for i, j in zip(x, y, strict=True)]
    return torch.from_numpy(np.stack(blocks))


@pytest.mark.parametrize(("n", "c", "d"), [(2, 1, 1), (9, 5, 3), (4, 7, 20), (30, 6, 6)])
def test_equals_a_block_of_numpys_covariance(n: int, c: int, d: int) -> None:
    x, y = features(2, n, c), features(2, n, d, seed=1)
    torch.testing.assert_close(cross_covariance(x, y), direct(x, y), rtol=0, atol=1e-14)


def test_not_centred_it_is_the_mean_outer_product() -> None:
    x, y = features(2, 9, 5), features(2, 9, 3, seed=1)
    expected = torch.stack([torch.stack([torch.outer(x[b, i], y[b, i]) for i in range(9)]).mean(0) for b in range(2)])
    torch.testing.assert_close(cross_covariance(x, y, centered=False), expected)


def test_mask_equals_slicing_and_weights_are_normalised() -> None:
    x, y = features(2, 9, 5), features(2, 9, 3, seed=1)
    mask = torch.arange(9).expand(2, 9) < 4
    poisoned = (f.masked_fill(~mask.unsqueeze(-1), torch.nan) for f in (x, y))
    torch.testing.assert_close(cross_covariance(*poisoned, mask=mask), direct(x[:, :4], y[:, :4]))
    torch.testing.assert_close(cross_covariance(x, y, weights=5 * mask.double()), direct(x[:, :4], y[:, :4]))
    assert (cross_covariance(x, y, mask=torch.zeros_like(mask)) == 0).all()


def test_a_shift_of_either_changes_nothing_and_a_transposition_swaps_them() -> None:
    x, y = features(2, 9, 5), features(2, 9, 3, seed=1)
    z = cross_covariance(x, y)
    torch.testing.assert_close(cross_covariance(x + 3, y - 100), z, rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(cross_covariance(y, x).mT, z)


def test_gradients() -> None:
    x, y = features(2, 5, 3).requires_grad_(), features(2, 5, 4, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(cross_covariance, (x, y))
    assert torch.autograd.gradgradcheck(cross_covariance, (x, y))


def test_autocast_reaches_neither_value_nor_gradient() -> None:
    x, y = randn(2, 9, 5, dtype=torch.float32).requires_grad_(), randn(2, 9, 3, dtype=torch.float32)
    expected = torch.autograd.grad(cross_covariance(x, y).sum(), x)[0]
    with torch.autocast("cpu", torch.bfloat16):
        z = cross_covariance(x, y)
        found = torch.autograd.grad(z.sum(), x)[0]
    assert z.dtype == torch.float32
    assert torch.equal(found, expected)
    assert cross_covariance(x.half(), y.half()).dtype == torch.float32


def test_empty_batch() -> None:
    assert cross_covariance(torch.zeros(0, 4, 3), torch.zeros(0, 4, 2)).shape == (0, 3, 2)


def test_different_positions_are_refused() -> None:
    with refuses(ValueError, "same positions", "(2, 9, 5)", "(2, 4, 3)"):
        cross_covariance(features(2, 9, 5), features(2, 4, 3))
