"""Kernel pooling against explicit sums and the RBF kernel, in float64."""

import math

import pytest
import torch
from torch import Tensor

from cases import features
from covpool.pools import AveragePool, CompactBilinearPool, KernelPool
from covpool.pools.kernel import rbf_coefficients


def epn(z: Tensor) -> Tensor:
    z = z.sign() * z.abs().sqrt()
    return z / z.norm(dim=1, keepdim=True)


def set_alpha(pool: KernelPool, *alpha: float) -> KernelPool:
    """Make a float64 pool with these coefficients."""
    pool = pool.double()
    pool.alpha.data.copy_(torch.tensor(alpha))
    return pool


def explicit(x: Tensor, pool: KernelPool) -> Tensor:
    """Compute unit length, circular convolutions as sums over buckets, the mean and E-PN, position by position."""
    z = []
    for item in x:
        parts = []
        for row in item:
            v = row / row.norm()
            part, sketch = [pool.alpha[:1], pool.alpha[1] * v], torch.eye(pool.size, dtype=x.dtype)[0]
            for p in range(pool.order):
                following = torch.zeros_like(sketch)
                for i in range(len(v)):
                    following += pool.signs[p, i] * v[i] * sketch.roll(int(pool.hashes[p, i]))
                sketch = following
                if p:
                    part.append(pool.alpha[p + 1] * sketch)
            parts.append(torch.cat(part))
        z.append(torch.stack(parts).mean(0))
    return epn(torch.stack(z))


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_equals_explicit_sums(order: int) -> None:
    x, pool = features(2, 6, 4), KernelPool(4, order=order, size=20).double()
    assert pool.out_features == 1 + 4 + (order - 1) * 20
    torch.testing.assert_close(pool(x), explicit(x, pool))
    mask = torch.arange(6).expand(2, 6) < 4
    torch.testing.assert_close(pool(x, mask=mask), explicit(x[:, :4], pool))


@pytest.mark.parametrize("order", [1, 2, 4])
def test_gradients_of_features_and_coefficients(order: int) -> None:
    """There are few buckets, so that none is empty: at zero the slope of the square root is only its guard."""
    x, pool = features(2, 6, 4).requires_grad_(), KernelPool(4, order=order, size=3).double()
    g = features(1, 2, pool.out_features, seed=1)[0]
    found = torch.autograd.grad(pool(x), (x, pool.alpha), g)
    for value, expected in zip(found, torch.autograd.grad(explicit(x, pool), (x, pool.alpha), g), strict=True):
        torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-6)


def test_size_of_the_published_networks() -> None:
    assert KernelPool(512).out_features == 12_801
    assert KernelPool(2048).out_features == 14_337
    assert sum(p.numel() for p in KernelPool(512).parameters()) == 5


def test_series_tends_to_the_rbf_kernel() -> None:
    x, y = torch.nn.functional.normalize(features(2, 50, 4), dim=-1)
    for gamma in (0.3, 1.0, 2.5):
        rbf = (-gamma * (x - y).square().sum(-1)).exp()
        powers = (x * y).sum(-1, keepdim=True) ** torch.arange(31)
        torch.testing.assert_close(powers @ rbf_coefficients(gamma, 30) ** 2, rbf, rtol=1e-12, atol=1e-14)
        squares = rbf_coefficients(gamma, 4) ** 2
        series = torch.tensor([math.exp(-2 * gamma) * (2 * gamma) ** i / math.factorial(i) for i in range(5)]).double()
        torch.testing.assert_close(squares / squares[0], series / series[0])
        assert abs(float(squares.sum()) - 1) <= 1e-15


def test_coefficients_do_not_underflow_for_a_large_gamma() -> None:
    pool, x = KernelPool(4, size=32, gamma=1e4), features(2, 6, 4, dtype=torch.float32)
    torch.testing.assert_close(pool(x).norm(dim=1), torch.ones(2))
    assert abs(float(pool.alpha.detach().norm()) - 1) <= 1e-6


def test_inner_products_of_the_features_estimate_the_kernel() -> None:
    """Average over seeds before E-PN, for unit vectors x and y; the difference is within four standard errors."""
    x, y = (v / v.norm() for v in features(1, 2, 4, seed=1)[0] + 0.5)
    both = torch.stack((x, y)).unsqueeze(1)
    estimates = []
    for seed in range(400):
        pool = KernelPool(4, order=3, size=32, seed=seed).double()
        z = pool(both).detach()
        z = z * z.abs()  # undoes the signed square root up to a scale; the first element is a_0 in both
        z = z / z[:, :1] * rbf_coefficients(1.0, 3)[0]
        estimates.append(float(z[0] @ z[1]))
    kernel = float(((x @ y) ** torch.arange(4)) @ rbf_coefficients(1.0, 3) ** 2)
    e = torch.tensor(estimates, dtype=torch.float64)
    assert abs(float(e.mean()) - kernel) <= 4 * float(e.std()) / 20


def test_first_order_alone_is_average_pooling() -> None:
    x = torch.nn.functional.normalize(features(2, 6, 4), dim=-1)
    z = set_alpha(KernelPool(4, order=1), 0, 1)(x)
    assert (z[:, 0] == 0).all()
    torch.testing.assert_close(z[:, 1:], epn(AveragePool(4)(x)).detach())


def test_second_order_alone_is_compact_bilinear_pooling() -> None:
    x = torch.nn.functional.normalize(features(2, 6, 4), dim=-1)
    pool, cbp = set_alpha(KernelPool(4, order=2, size=32), 0, 0, 1), CompactBilinearPool(4, size=32)
    cbp.load_state_dict({"hashes": pool.hashes, "signs": pool.signs})
    z = pool(x)
    assert (z[:, :5] == 0).all()
    torch.testing.assert_close(z[:, 5:], cbp(x))


def test_scale_of_a_position_does_not_matter() -> None:
    x, pool = features(2, 6, 4), KernelPool(4, size=32).double()
    scale = torch.logspace(-8, 8, 6, dtype=torch.float64)[:, None]
    torch.testing.assert_close(pool(scale * x), pool(x))


def test_a_zero_position_adds_only_the_constant_and_has_a_bounded_gradient() -> None:
    x, pool = features(2, 6, 4), KernelPool(4, order=2, size=32).double()
    x[:, 0] = 0
    x.requires_grad_()
    z = pool(x)
    (dx,) = torch.autograd.grad(z.sum(), x)
    assert z.isfinite().all() and dx.abs().max() <= 100
    powers = z * z.abs()
    alive = pool(x[:, 1:])
    alive = alive * alive.abs()
    torch.testing.assert_close(powers[:, 1:] / powers[:, :1], 5 / 6 * alive[:, 1:] / alive[:, :1])


def test_init_from_sets_gamma_to_the_reciprocal_of_the_mean_inner_product() -> None:
    descriptors = features(1, 7, 4)[0].abs()
    unit = descriptors / descriptors.norm(dim=1, keepdim=True)
    pairs = [float(unit[i] @ unit[j]) for i in range(7) for j in range(7) if i != j]
    gamma = len(pairs) / sum(pairs)
    pool = KernelPool(4, size=8).double()
    pool.init_from(3 * descriptors)
    series = torch.tensor([(2 * gamma) ** i / math.factorial(i) for i in range(5)], dtype=torch.float64)
    torch.testing.assert_close((pool.alpha**2).detach(), series / series.sum())
    assert pool.alpha.requires_grad


def test_wrong_use() -> None:
    pool = KernelPool(4, size=8)
    with pytest.raises(ValueError, match=r"\(m, 4\), m >= 2,.*got \(1, 4\)"):
        pool.init_from(torch.ones(1, 4))
    with pytest.raises(ValueError, match=r"mean inner product.*positive.*got -1: give `gamma`"):
        pool.init_from(torch.tensor([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]]))
    with pytest.raises(ValueError, match=r"`gamma` must be positive; got 0"):
        KernelPool(4, gamma=0)
    with pytest.raises(ValueError, match=r"`order`.*0"):
        KernelPool(4, order=0)
