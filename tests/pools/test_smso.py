"""Statistically motivated pooling: its identity, statistics and published initialization, in float64."""

import copy

import numpy as np
import pytest
import torch
from torch import Tensor

from cases import features, generator, hard_features
from covpool.pools import StatisticalPool


def before_normalization(pool: StatisticalPool, x: Tensor, **positions: Tensor) -> Tensor:
    """Return sqrt(2 z) of unchanged features: both batch norms are the identity, up to their eps."""
    pool = copy.deepcopy(pool).eval()
    pool.feature_norm.eps = pool.norm.eps = 0.0
    return pool(x, **positions)


def small(c: int = 5, p: int = 7, **options: object) -> StatisticalPool:
    torch.manual_seed(0)
    return StatisticalPool(c, p=p, **options).double()


def test_is_the_diagonal_of_the_projected_covariance() -> None:
    x, pool = features(2, 12, 5) + 1, small()
    w = pool.weight.detach().numpy()
    z = np.stack([np.diag(w.T @ np.cov(item.T) @ w) for item in x.numpy()])
    torch.testing.assert_close(before_normalization(pool, x), torch.from_numpy(np.sqrt(2 * z)))


def test_identity_weights_give_the_variances() -> None:
    x, pool = features(2, 12, 5) + 1, small(p=5)
    with torch.no_grad():
        pool.weight.copy_(torch.eye(5))
    y = before_normalization(pool, x)
    torch.testing.assert_close(y**2 / 2, torch.from_numpy(x.numpy().var(1, ddof=1)))
    assert (y >= 0).all()


def test_the_authors_variant_is_the_mean_square_of_a_convolution() -> None:
    x, pool = features(2, 12, 5) + 1, small(centered=False)
    maps = torch.nn.functional.conv1d(x.mT, pool.weight.mT.unsqueeze(-1), pool.bias)
    torch.testing.assert_close(before_normalization(pool, x), (2 * (maps**2).mean(2)).sqrt())


def test_both_batch_norms_in_training() -> None:
    x, pool = 3 * features(6, 12, 5) + 1, small()
    flat = x.flatten(0, 1)
    normalized = (x - flat.mean(0)) / (flat.var(0, correction=0) + 1e-5).sqrt()
    y = before_normalization(pool, normalized)
    expected = (y - y.mean(0)) / (y.var(0, correction=0) + 1e-5).sqrt()
    torch.testing.assert_close(pool(x), expected)


def test_in_training_the_batch_statistics_use_kept_positions_only() -> None:
    x, pool = 3 * features(6, 12, 5) + 1, small()
    mask = torch.arange(12).expand(6, 12) < 8
    sliced = copy.deepcopy(pool)
    torch.testing.assert_close(pool(x.masked_fill(~mask.unsqueeze(-1), torch.nan), mask=mask), sliced(x[:, :8]))
    for ours, theirs in zip(pool.buffers(), sliced.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_statistics_of_gaussian_features() -> None:
    """(M - 1) z_j / (w_j^T Sigma w_j) is chi-squared, M - 1 degrees; its double has a root near N(sqrt(2M - 3), 1)."""
    m, images, pool = 51, 4000, small(c=3, p=4)
    mixing = torch.tensor([[1.0, 0.0, 0.0], [0.7, 2.0, 0.0], [-0.3, 0.4, 0.5]], dtype=torch.float64)
    x = torch.randn(images, m, 3, dtype=torch.float64, generator=generator(3)) @ mixing.T
    z = before_normalization(pool, x) ** 2 / 2
    w = pool.weight.detach()
    chi = (m - 1) * z / (w * (mixing @ mixing.T @ w)).sum(0)
    torch.testing.assert_close(chi.mean(0), torch.full((4,), m - 1.0).double(), rtol=0, atol=5 * (100 / images) ** 0.5)
    torch.testing.assert_close(chi.var(0), torch.full((4,), 2 * (m - 1.0)).double(), rtol=0.12, atol=0)
    root = (2 * chi).sqrt()
    torch.testing.assert_close(root.mean(0), torch.full((4,), (2 * m - 3) ** 0.5).double(), rtol=0, atol=0.08)
    torch.testing.assert_close(root.var(0), torch.full((4,), 0.996).double(), rtol=0, atol=0.1)


@pytest.mark.parametrize("centered", [True, False])
def test_published_initialization_and_parameter_count(centered: bool) -> None:
    torch.manual_seed(0)
    pool = StatisticalPool(512, reduce_to=256, centered=centered)
    p = pool.out_features
    assert p == 2048
    std, mean = torch.std_mean(pool.weight.detach())
    assert float(std) == pytest.approx(0.01, rel=0.01) and abs(float(mean)) < 1e-4
    biases = [] if pool.bias is None else pool.bias.unique().tolist()
    assert biases == ([] if centered else [pytest.approx(0.1)])
    own = 2 * 256 + 256 * p + 2 * p + (0 if centered else p)
    assert sum(q.numel() for q in pool.parameters()) == 512 * 256 + 2 * 256 + own


@pytest.mark.parametrize("centered", [True, False])
def test_gradients_of_features_and_parameters(centered: bool) -> None:
    pool, x = small(c=3, p=2, centered=centered), features(3, 6, 3).requires_grad_()
    with torch.no_grad():
        pool.weight *= 100  # large enough that the guard of the root at zero has no effect
    names, values = zip(*((k, v.detach().requires_grad_()) for k, v in pool.named_parameters()), strict=True)

    def pooled(x: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(pool, dict(zip(names, values, strict=True)), x)

    assert torch.autograd.gradcheck(pooled, (x, *values), atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("training", [False, True])
def test_the_authors_variant_is_finite_on_hard_cases(training: bool) -> None:
    for x in hard_features().values():
        pool = StatisticalPool(16, p=8, centered=False).train(training)
        x.requires_grad_()
        z = pool(x)
        grads = torch.autograd.grad(z.square().sum(), (x, *pool.parameters()))
        assert z.isfinite().all() and all(g.isfinite().all() for g in grads)


def test_wrong_options_are_refused() -> None:
    with pytest.raises(ValueError, match="`p` must be a positive integer; got 0"):
        StatisticalPool(4, p=0)
