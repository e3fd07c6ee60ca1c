"""FASON against its two halves, computed separately in float64."""

import pytest
import torch
from torch import Tensor

from cases import features
from covpool import create_pool
from covpool.pools import FirstAndSecondOrderPool


def second_order(x: Tensor, hashes: Tensor, signs: Tensor, size: int) -> Tensor:
    """Add each product x_i x_j of each position to its bucket, then take the signed square root and unit length."""
    z = torch.zeros(len(x), size, dtype=torch.float64)
    for b, item in enumerate(x):
        moment = item.T @ item / len(item)
        for i in range(x.shape[-1]):
            for j in range(x.shape[-1]):
                z[b, (hashes[0, i] + hashes[1, j]) % size] += signs[0, i] * signs[1, j] * moment[i, j]
    z = z.sign() * z.abs().sqrt()
    return z / z.norm(dim=1, keepdim=True)


def expected(pool: FirstAndSecondOrderPool, *levels: Tensor) -> Tensor:
    parts = []
    for sketch, x in zip(pool.sketches, levels, strict=True):
        parts += [x.mean(1), second_order(x, sketch.hashes, sketch.signs, 32)]
    return torch.cat(parts, -1)


def test_the_vector_is_the_mean_and_the_sketch() -> None:
    x, pool = features(2, 9, 5), FirstAndSecondOrderPool(5, size=32).double()
    assert pool.out_features == 37
    torch.testing.assert_close(pool(x), expected(pool, x))


def test_each_half_is_its_stand_alone_pool() -> None:
    x, pool = features(2, 9, 5), FirstAndSecondOrderPool(5, size=32, seed=3).double()
    first, second = pool(x).split((5, 32), -1)
    torch.testing.assert_close(first, create_pool("avg", 5)(x))
    torch.testing.assert_close(second, create_pool("cbp", 5, size=32, seed=3).double()(x))


def test_the_slope_of_the_second_half_is_that_of_compact_bilinear_pooling() -> None:
    """Damped, 0.5 / (sqrt|z| + 0.1), compared with an explicit chain rule; the gradient of the mean is unchanged."""
    x, pool, g = features(1, 6, 3), FirstAndSecondOrderPool(3, size=8).double(), features(1, 1, 11, seed=1)[0, 0]
    leaf = x.clone().requires_grad_()
    (found,) = torch.autograd.grad(pool(leaf), leaf, g[None])
    sketch = pool.sketches[0]
    buckets = (sketch.hashes[0][:, None] + sketch.hashes[1]) % 8
    onto = torch.nn.functional.one_hot(buckets, 8).double() * (sketch.signs[0][:, None] * sketch.signs[1])[..., None]
    z = torch.einsum("ni,nj,ijk->k", x[0], x[0], onto) / 6
    y = z.sign() * z.abs().sqrt()
    u = y / y.norm()
    dz = (g[3:] - (g[3:] @ u) * u) / y.norm() * 0.5 / (z.abs().sqrt() + 0.1)
    moment = onto @ dz
    torch.testing.assert_close(found[0], g[:3] / 6 + x[0] @ (moment + moment.T) / 6)


def test_size_of_the_sketch_is_that_of_compact_bilinear_pooling() -> None:
    assert FirstAndSecondOrderPool((256, 512)).out_features == 256 + 8192 + 512 + 8192


def test_levels_have_separate_sketches_and_keep_their_grids() -> None:
    x, y = features(2, 16, 5), features(2, 4, 3, seed=1)
    pool = FirstAndSecondOrderPool((5, 3), size=32).double()
    assert pool.out_features == 5 + 32 + 3 + 32
    z = pool(x.mT.unflatten(-1, (4, 4)), y.mT.unflatten(-1, (2, 2)))
    torch.testing.assert_close(z, expected(pool, x, y))
    same = FirstAndSecondOrderPool((5, 5), size=32)
    assert not torch.equal(same.sketches[0].hashes, same.sketches[1].hashes)


def test_a_mask_of_the_first_map_reaches_every_level() -> None:
    x, y = features(2, 16, 5).mT.unflatten(-1, (4, 4)), features(2, 4, 3, seed=1).mT.unflatten(-1, (2, 2))
    pool = FirstAndSecondOrderPool((5, 3), size=32).double()
    mask = (torch.arange(4) < 2).expand(2, 4, 4)
    z = expected(pool, x[..., :2].flatten(2).mT, y[..., :1].flatten(2).mT)
    torch.testing.assert_close(pool(x, y.index_fill(3, torch.tensor([1]), torch.nan), mask=mask), z)
    torch.testing.assert_close(pool(x, y, weights=3 * mask.double()), z)
    torch.testing.assert_close(pool(x, y, mask=torch.ones_like(mask)), pool(x, y))
    assert (pool(x, y, mask=torch.zeros_like(mask)) == 0).all()


def test_the_sketch_is_saved_and_not_trained() -> None:
    pool = FirstAndSecondOrderPool((5, 3), size=32)
    assert not list(pool.parameters())
    assert set(pool.state_dict()) == {f"sketches.{i}.{name}" for i in (0, 1) for name in ("hashes", "signs")}


def test_gradient_with_the_true_slope() -> None:
    x, pool = (features(1, 6, 3) + 2).requires_grad_(), FirstAndSecondOrderPool(3, size=8, gradient="bcnn").double()
    g = features(1, 1, 11, seed=1)[0]
    (found,) = torch.autograd.grad(pool(x), x, g)
    sketch = pool.sketches[0]
    used = second_order_autograd(x, sketch.hashes, sketch.signs, 8)
    (truth,) = torch.autograd.grad(torch.cat((x.mean(1), used), -1), x, g)
    torch.testing.assert_close(found, truth, rtol=1e-6, atol=1e-7)  # the published guard of 1e-8 at zero


def second_order_autograd(x: Tensor, hashes: Tensor, signs: Tensor, size: int) -> Tensor:
    """Use a matrix that adds entry i, j of the moment to its bucket; empty buckets stay zero."""
    buckets = (hashes[0][:, None] + hashes[1]) % size
    onto = torch.nn.functional.one_hot(buckets, size).double() * (signs[0][:, None] * signs[1])[..., None]
    z = torch.einsum("bni,bnj,ijk->bk", x, x, onto) / x.shape[1]
    reached = onto.abs().sum((0, 1)) > 0
    magnitude = torch.where(reached, z.abs(), 1).sqrt()
    y = torch.where(reached, z.sign() * magnitude, 0)
    return y / y.norm(dim=1, keepdim=True)


def test_wrong_options_are_refused() -> None:
    with pytest.raises(ValueError, match="`size` must be a positive integer; got 0"):
        FirstAndSecondOrderPool(4, size=0)
    with pytest.raises(ValueError, match="gradient"):
        FirstAndSecondOrderPool(4, gradient="exact")  # type: ignore[arg-type]
