"""DropCov: the rate, the dropout in training, and plain covariance pooling in evaluation."""

import numpy as np
import pytest
import torch
from torch import Tensor

from cases import features, hard_features
from covpool import create_pool
from covpool.ops import unvech
from covpool.pools.dropcov import DropoutCovariancePool, adaptive_rate


def make(c: int, **options: object) -> DropoutCovariancePool:
    torch.manual_seed(0)
    return create_pool("dropcov", c, **options).double().train()


def published(x: Tensor, kernel: Tensor) -> tuple[np.ndarray, float]:
    """Compute the recalibrated features and the rate with numpy."""
    pooled = np.pad(x.numpy().mean(1), ((0, 0), (1, 1)))
    scores = np.stack([pooled[:, i : i + x.shape[-1]] * float(kernel[i]) for i in range(3)]).sum(0)
    y = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    features = x.numpy() * (1 + y[:, None])
    cosines = []
    for weights, item in zip(y, features, strict=True):
        rows = np.cov(item.T, bias=True).sum(1)
        cosines.append(weights @ rows / np.linalg.norm(weights) / np.linalg.norm(rows))
    return features, float(np.clip(1 - 10 / np.log2(x.shape[-1]) * np.mean(cosines), 0, 1))


def correlated(c: int = 256, n: int = 20) -> Tensor:
    """Make features whose covariances have both signs, so that the rate is inside (0, 1)."""
    return features(3, n, c) + 0.3


def dropped(z: Tensor) -> Tensor:
    """Return which channels have no variance."""
    return unvech(z).diagonal(dim1=-2, dim2=-1) == 0


def test_in_evaluation_it_is_plain_covariance_pooling() -> None:
    x = features(2, 9, 5)
    pool = make(5).eval()
    torch.testing.assert_close(pool(x), create_pool("cov", 5)(x))
    assert torch.equal(pool(x), pool(x))


def test_kept_channels_have_the_published_covariances() -> None:
    x = correlated()
    pool = make(256)
    z = pool(x)
    expected, rate = published(x, pool.attention.weight.detach()[0, 0])
    assert 0.1 < rate < 0.95
    kept = ~dropped(z)
    for item, keep, matrix in zip(expected, kept, unvech(z), strict=True):
        sigma = torch.from_numpy(np.cov(item.T, bias=True)) / (1 - rate) ** 2
        torch.testing.assert_close(matrix, sigma * keep[:, None] * keep, rtol=1e-9, atol=1e-12)
    assert kept.double().mean() == pytest.approx(1 - rate, abs=0.06)  # 768 draws: three standard deviations
    assert len({tuple(row.tolist()) for row in kept}) == 3  # each image drops different channels


def test_adaptive_rate() -> None:
    """Equal directions give 1 - 10 / log2(c), unrelated directions give one, and the rate stays in [0, 1]."""
    ones = torch.ones(2, 4096)
    sigma = torch.diag_embed(ones)
    torch.testing.assert_close(adaptive_rate(ones, sigma), torch.tensor(1 - 10 / 12))
    assert adaptive_rate(ones[:, :16], sigma[:, :16, :16]) == 0
    assert adaptive_rate(ones, -sigma) == 1
    assert adaptive_rate(ones, 0 * sigma) == 1
    torch.testing.assert_close(adaptive_rate(ones, 1e30 * sigma), torch.tensor(1 - 10 / 12))


def test_a_rate_of_one_drops_everything_with_finite_gradients() -> None:
    x = torch.zeros(2, 5, 16, dtype=torch.float64, requires_grad=True)
    z = make(16)(x)
    assert not z.any()
    assert torch.autograd.grad(z.sum(), x)[0].isfinite().all()


def test_gradient_through_the_attention() -> None:
    """The random numbers and the rate are fixed; as published, the rate has no gradient."""
    x, pool = features(2, 9, 6).requires_grad_(), make(6)  # 10 / log2(6) = 3.9: the rate is zero

    def f(x: Tensor, kernel: Tensor) -> Tensor:
        torch.manual_seed(3)
        return torch.func.functional_call(pool, {"attention.weight": kernel}, x)

    x.data = x.data.abs() * features(2, 1, 6, seed=1).abs()  # correlated enough
    assert published(x.detach(), pool.attention.weight.detach()[0, 0])[1] == 0
    assert torch.autograd.gradcheck(f, (x, pool.attention.weight.detach().clone().requires_grad_()))


def test_a_fixed_rate_needs_no_attention() -> None:
    pool = make(256, rate=0.3)
    assert not list(pool.parameters())
    x = features(3, 9, 256)
    z = pool(x)
    kept = ~dropped(z)
    assert kept.double().mean() == pytest.approx(0.7, abs=0.05)
    sigma = torch.from_numpy(np.stack([np.cov(item.numpy().T, bias=True) for item in x])) / 0.7**2
    torch.testing.assert_close(unvech(z), sigma * kept[:, :, None] * kept[:, None])
    torch.testing.assert_close(pool.eval()(x), create_pool("cov", 256)(x))


def test_a_mask_in_training_equals_the_sliced_features() -> None:
    x, pool = correlated(64), make(64)
    mask = torch.arange(20).expand(3, 20) < 12
    torch.manual_seed(5)
    z = pool(x.masked_fill(~mask.unsqueeze(-1), torch.nan), mask=mask)
    torch.manual_seed(5)
    torch.testing.assert_close(z, pool(x[:, :12]))


@pytest.mark.parametrize("options", [{}, {"rate": 0.5}])
def test_training_is_finite_on_hard_cases_and_an_empty_batch(options: dict[str, object]) -> None:
    pool = create_pool("dropcov", 16, **options).train()
    for x in (*hard_features().values(), torch.zeros(0, 5, 16)):
        x.requires_grad_()
        z = pool(x)
        grads = torch.autograd.grad(z.sum(), (x, *pool.parameters()))
        assert z.shape == (len(x), 136)
        assert z.isfinite().all() and all(g.isfinite().all() for g in grads)


def test_one_channel() -> None:
    assert create_pool("dropcov", 1).train()(torch.randn(2, 1, 4, 4)).isfinite().all()


def test_training_compiles_without_a_graph_break() -> None:
    """A full graph also shows that the host does not wait for the device."""
    torch.compiler.reset()
    pool = create_pool("dropcov", 8).train()
    z = torch.compile(pool, fullgraph=True, backend="aot_eager")(torch.randn(2, 8, 3, 3))
    assert z.shape == (2, 36) and z.isfinite().all()


@pytest.mark.parametrize("rate", [1, -0.1, "fixed", None])
def test_a_wrong_rate_is_refused(rate: object) -> None:
    with pytest.raises(ValueError, match=r"`rate` must be 'adaptive' or in \[0, 1\); got"):
        create_pool("dropcov", 4, rate=rate)
