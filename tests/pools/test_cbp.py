"""Compact bilinear pooling against explicit sums, in float64."""

import copy
from typing import Literal

import pytest
import torch
from torch import Tensor

from cases import features
from covpool.pools import BilinearPool, CompactBilinearPool

both = pytest.mark.parametrize("sketch", ["tensor", "maclaurin"])
Sketch = Literal["tensor", "maclaurin"]


def epn(z: Tensor) -> Tensor:
    z = z.sign() * z.abs().sqrt()
    return z / z.norm(dim=1, keepdim=True)


def bucket_by_bucket(x: Tensor, pool: CompactBilinearPool) -> Tensor:
    """Add each signed product x_i x_j of each position to bucket h_1(i) + h_2(j), then apply E-PN."""
    z = torch.zeros(len(x), pool.size, dtype=x.dtype)
    for b, item in enumerate(x):
        for i in range(x.shape[2]):
            for j in range(x.shape[2]):
                k = (pool.hashes[0, i] + pool.hashes[1, j]) % pool.size
                z[b, k] += pool.signs[0, i] * pool.signs[1, j] * (item[:, i] @ item[:, j])
    return epn(z)


@pytest.mark.parametrize(
    ("n", "c", "size"), [(9, 5, 20), (9, 5, 4), (1, 5, 20)]
)  # from the moment, and by Fourier transforms
def test_tensor_sketch(n: int, c: int, size: int) -> None:
    x, pool = features(2, n, c), CompactBilinearPool(c, size=size)
    torch.testing.assert_close(pool(x), bucket_by_bucket(x, pool))
    mask = torch.arange(n).expand(2, n) < 4
    torch.testing.assert_close(pool(x, mask=mask), bucket_by_bucket(x[:, :4], pool))


def test_random_maclaurin() -> None:
    x, pool = features(2, 9, 5), CompactBilinearPool(5, size=20, sketch="maclaurin")
    assert set(pool.factors.flatten().tolist()) == {-1.0, 1.0}
    w1, w2 = pool.factors.double()
    torch.testing.assert_close(pool(x), epn(((x @ w1) * (x @ w2)).sum(1)))


def test_a_sketch_without_collisions_is_bcnn_up_to_signs_and_order() -> None:
    x, pool = features(2, 9, 4), CompactBilinearPool(4, size=16)
    pool.hashes.copy_(torch.tensor([[0, 4, 8, 12], [0, 1, 2, 3]]))
    signs = torch.outer(pool.signs[0], pool.signs[1]).flatten().double()
    torch.testing.assert_close(pool(x) * signs, BilinearPool(4)(x))


@both
def test_unit_length_at_any_scale(sketch: Sketch) -> None:
    x, pool = features(2, 9, 5), CompactBilinearPool(5, sketch=sketch, size=64)
    for scale in (1e-8, 1.0, 1e8):
        torch.testing.assert_close(pool(scale * x), pool(x))
        torch.testing.assert_close(pool(scale * x).norm(dim=1), torch.ones(2, dtype=torch.float64))


@both
def test_the_random_numbers_are_separate_and_saved(sketch: Sketch) -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    pool, same, other = (CompactBilinearPool(5, sketch=sketch, size=64, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    x = features(2, 9, 5)
    assert torch.equal(same(x), pool(x)) and not torch.allclose(other(x), pool(x))
    other.load_state_dict(pool.state_dict())
    assert torch.equal(other(x), pool(x))


@pytest.mark.parametrize(("sketch", "count"), [("tensor", 2 * 5), ("maclaurin", 2 * 5 * 64)])
def test_there_are_no_parameters_unless_learned(sketch: Sketch, count: int) -> None:
    fixed, learned = (CompactBilinearPool(5, sketch=sketch, size=64, learned=learned) for learned in (False, True))
    x = features(2, 9, 5)
    assert list(fixed.parameters()) == []
    assert sum(p.numel() for p in learned.parameters()) == count
    assert torch.equal(fixed(x), learned(x))
    assert fixed.state_dict().keys() == learned.state_dict().keys()
    (learned(x) * torch.arange(64)).sum().backward()
    (parameter,) = learned.parameters()
    assert parameter.grad is not None and parameter.grad.isfinite().all() and parameter.grad.abs().max() > 0


def test_published_size_is_the_default_and_nothing_is_learned() -> None:
    pool = CompactBilinearPool(5)
    assert pool.out_features == 8192 and pool.hashes.shape == (2, 5) and not list(pool.parameters())
    assert torch.equal(pool.hashes, CompactBilinearPool(5, size=8192, seed=1).hashes)


def test_the_published_slope_is_damped() -> None:
    """0.5 / (sqrt|z| + 0.1), not the derivative; compared with an explicit chain rule."""
    x, pool = features(1, 9, 3).requires_grad_(), CompactBilinearPool(3, size=8)
    g = features(1, 1, 8, seed=1)[0]
    (found,) = torch.autograd.grad(pool(x), x, g)
    products = x.mT @ x / 9
    z = torch.zeros(1, 8, dtype=torch.float64)
    for i in range(3):
        for j in range(3):
            hot = torch.nn.functional.one_hot((pool.hashes[0, i] + pool.hashes[1, j]) % 8, 8)
            z = z + hot * pool.signs[0, i] * pool.signs[1, j] * products[:, i, j]
    y = (z.sign() * z.abs().sqrt()).detach().requires_grad_()
    (dy,) = torch.autograd.grad(y / y.norm(dim=1, keepdim=True), y, g)
    (expected,) = torch.autograd.grad(z, x, dy * 0.5 / (z.detach().abs().sqrt() + 0.1))
    torch.testing.assert_close(found, expected)


@both
def test_a_network_in_half_precision_keeps_the_random_numbers(sketch: Sketch) -> None:
    pool, x = CompactBilinearPool(5, sketch=sketch, size=64), features(2, 9, 5, dtype=torch.float32).bfloat16()
    assert torch.equal(copy.deepcopy(pool).bfloat16()(x), pool(x))


def test_wrong_use() -> None:
    with pytest.raises(ValueError, match=r"`sketch`.*'tensors'.*did you mean 'tensor'"):
        CompactBilinearPool(5, sketch="tensors")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"`size`.*0"):
        CompactBilinearPool(5, size=0)
    with pytest.raises(ValueError, match="gradient"):
        CompactBilinearPool(5, gradient="exact")  # type: ignore[arg-type]
