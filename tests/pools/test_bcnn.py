"""Bilinear pooling against direct computation, in float64."""

import pytest
import torch
from torch import Tensor

from cases import features
from covpool.pools import BilinearPool


def direct(x: Tensor, y: Tensor) -> Tensor:
    """Compute the mean outer product, the signed square root and unit length term by term."""
    outer = torch.stack(
        [torch.stack([torch.outer(a, b) for a, b in zip(i, j, strict=True)]).mean(0) for i, j in zip(x, y, strict=True)]
    )
    z = outer.flatten(1)
    z = z.sign() * z.abs().sqrt()
    return z / z.norm(dim=1, keepdim=True)


def test_one_stream() -> None:
    x = features(2, 9, 5)
    torch.testing.assert_close(BilinearPool(5)(x), direct(x, x))


def test_two_streams() -> None:
    x, y = features(2, 9, 5), features(2, 9, 3, seed=1)
    pool = BilinearPool((5, 3))
    assert pool.out_features == 15
    torch.testing.assert_close(pool(x, y), direct(x, y))


def test_two_streams_with_a_mask_equal_the_sliced_streams() -> None:
    x, y = features(2, 9, 5), features(2, 9, 3, seed=1)
    mask = torch.arange(9).expand(2, 9) < 4
    torch.testing.assert_close(BilinearPool((5, 3))(x, y, mask=mask), direct(x[:, :4], y[:, :4]))


def test_the_second_map_is_resized_bilinearly_to_the_first() -> None:
    x, y = features(2, 24, 5).mT.unflatten(-1, (4, 6)), features(2, 6, 3, seed=1).mT.unflatten(-1, (2, 3))
    large = torch.nn.functional.interpolate(y, (4, 6), mode="bilinear")
    torch.testing.assert_close(BilinearPool((5, 3))(x, y), direct(x.flatten(2).mT, large.flatten(2).mT))


def test_one_stream_is_the_covariance_plus_the_outer_product_of_the_mean() -> None:
    x = features(2, 9, 5) + 1
    mean = x.mean(1, keepdim=True)
    moment = (x - mean).mT @ (x - mean) / 9 + mean.mT @ mean
    z = BilinearPool(5)(x)
    squares = z * z.abs() * moment.abs().sum((1, 2))[:, None]  # undo unit length and the signed square root
    torch.testing.assert_close(squares, moment.flatten(1))


def test_one_channel_gives_one_and_scale_does_not_matter() -> None:
    torch.testing.assert_close(BilinearPool(1)(features(2, 9, 1)), torch.ones(2, 1, dtype=torch.float64))
    x = features(2, 9, 5)
    torch.testing.assert_close(BilinearPool(5)(3 * x), BilinearPool(5)(x))


def test_single_position() -> None:
    x = features(2, 1, 5)
    outer = x.mT @ x
    expected = outer.sign() * outer.abs().sqrt() / x.abs().sum(2, keepdim=True)
    torch.testing.assert_close(BilinearPool(5)(x), expected.flatten(1))


def test_gradient_is_complete() -> None:
    """One released implementation returns half of the gradient."""
    x = (features(1, 6, 3) + 2).requires_grad_()
    g = features(1, 1, 9, seed=1)[0]
    (found,) = torch.autograd.grad(BilinearPool(3)(x), x, g)
    (expected,) = torch.autograd.grad(direct(x, x), x, g)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)  # the published guard of 1e-8 at zero


def test_gradient_in_closed_form() -> None:
    """(G + G^T) X / M with G = (|z| + 1e-8)^(-1/2) o (g - <g, u> u) / (2 |y|), u = y / |y|, y the signed root of z."""
    f, g = features(1, 6, 4) + 2, features(1, 1, 16, seed=1)[0]
    f[..., 3] = 0  # a dead channel, where the published guard is all of the slope
    x = f.clone().requires_grad_()
    (found,) = torch.autograd.grad(BilinearPool(4)(x), x, g)
    f, g = f[0], g[0]
    z = (f.T @ f / 6).flatten()
    y = z.sign() * z.abs().sqrt()
    u = y / y.norm()
    dz = ((g - (g @ u) * u) / (2 * (z.abs() + 1e-8).sqrt() * y.norm())).unflatten(0, (4, 4))
    torch.testing.assert_close(found[0], f @ (dz + dz.T) / 6)


def test_batch_norm_for_pre_training_follows_unit_length() -> None:
    x, pool = features(4, 9, 3), BilinearPool(3, normalize="bn").double()
    z = direct(x, x)
    torch.testing.assert_close(pool(x), (z - z.mean(0)) / (z.var(0, correction=0) + 1e-5).sqrt())


def test_wrong_use() -> None:
    with pytest.raises(ValueError, match="same positions; got 9 and 4"):
        BilinearPool((5, 3))(features(2, 9, 5), features(2, 4, 3))
    with pytest.raises(ValueError, match="gradient"):
        BilinearPool(5, gradient="exact")  # type: ignore[arg-type]
