"""Low-rank bilinear pooling against explicit quadratic forms, in float64."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

import covpool
from cases import features
from covpool.pools import LowRankBilinearPool

CLASSES, M, RANK = 3, 4, 6


def make(channels: int = 5, *, bottleneck: int = M, rank: int = RANK, **options: float | None) -> LowRankBilinearPool:
    """Make a float64 pool with all parameters moved off their initial values."""
    torch.manual_seed(0)
    options = {"sqrt_scale": None, **options}
    pool = LowRankBilinearPool(channels, num_classes=CLASSES, bottleneck=bottleneck, rank=rank, **options).double()
    for parameter in pool.parameters():
        torch.nn.init.normal_(parameter)
    return pool


def projected(x: Tensor, pool: LowRankBilinearPool) -> Tensor:
    return x @ pool.projection.weight.T + pool.projection.bias


def explicit(x: Tensor, pool: LowRankBilinearPool) -> Tensor:
    """Compute |U+^T X'|_F^2 - |U-^T X'|_F^2 + b for each class, divided by the number of positions."""
    scores = []
    for item in projected(x, pool):
        for u, b in zip(pool.factors, pool.bias, strict=True):
            signs = [1] * (pool.rank // 2) + [-1] * (pool.rank // 2)
            squares = [s * (item @ column).square().sum() for s, column in zip(signs, u.T, strict=True)]
            scores.append(sum(squares) / len(item) + b)
    return torch.stack(scores).reshape(len(x), -1)


def test_scores_equal_explicit_quadratic_forms() -> None:
    x, pool = features(2, 9, 5), make()
    torch.testing.assert_close(pool(x), explicit(x, pool))
    mask = torch.arange(9).expand(2, 9) < 4
    torch.testing.assert_close(pool(x, mask=mask), explicit(x[:, :4], pool))


def test_scores_are_inner_products_with_the_representation() -> None:
    """<U+ U+^T - U- U-^T, X' X'^T> + b."""
    x, pool = features(2, 9, 5), make()
    z = pool.representation(x)
    moment = projected(x, pool).mT @ projected(x, pool) / 9
    torch.testing.assert_close(z, moment.flatten(1))
    positive, negative = pool.factors[..., : RANK // 2], pool.factors[..., RANK // 2 :]
    forms = positive @ positive.mT - negative @ negative.mT
    torch.testing.assert_close(pool(x), torch.einsum("bij,kij->bk", moment, forms) + pool.bias)


def test_full_rank_reproduces_any_bilinear_classifier() -> None:
    x, pool = features(2, 9, M), make(M, rank=2 * M)
    pool.projection.weight.data.copy_(torch.eye(M))
    pool.projection.bias.data.zero_()
    w = features(1, CLASSES, M * M, seed=1)[0].reshape(CLASSES, M, M)
    w = w + w.mT
    values, vectors = torch.linalg.eigh(w)
    halves = [vectors * part.clamp(min=0).sqrt().unsqueeze(1) for part in (values, -values)]
    pool.factors.data.copy_(torch.cat(halves, -1))
    expected = torch.stack([torch.stack([(item @ k * item).sum(1).mean() for k in w]) for item in x]) + pool.bias
    torch.testing.assert_close(pool(x), expected)


def test_scores_are_quadratic_in_the_features_and_linear_after_the_square_root() -> None:
    x = features(2, 9, 5)
    for sqrt_scale, degree in ((None, 2), (20.0, 1)):
        pool = make(sqrt_scale=sqrt_scale)
        pool.projection.bias.data.zero_()
        pool.bias.data.zero_()
        for scale in (1e-8, 3.0, 1e8):
            torch.testing.assert_close(pool(scale * x), scale**degree * pool(x), rtol=1e-12, atol=0)


def test_default_scale_equals_the_published_sum_over_positions_of_vgg() -> None:
    """sign(x) sqrt(|x| / 20000), summed over 28 x 28 positions."""
    x, pool = features(1, 784, 5), LowRankBilinearPool(5, num_classes=CLASSES, bottleneck=M, rank=RANK).double()
    rooted = x.sign() * (x.abs() / 20_000).sqrt()
    torch.testing.assert_close(pool(x), explicit(rooted, pool) * 784, rtol=1e-6, atol=1e-12)


def test_gradients_in_closed_form() -> None:
    """With M = X' X'^T / n, S = dl/ds and W_k = U+ U+^T - U- U-^T: dl/dX' = 2 sum_k S_k W_k X' / n, dl/dU = +-2 S M U.

    The square root of the features before P has the damped slope 0.5 / (sqrt(z) + 0.1), z = |x| / scale.
    """
    x, scale, g = features(2, 9, 5), 20_000 / 784, features(1, 2, CLASSES, seed=1)[0]
    pool = make(sqrt_scale=scale)
    leaf = x.clone().requires_grad_()
    found = torch.autograd.grad(pool(leaf), (leaf, pool.projection.weight, pool.factors, pool.bias), g)

    rooted = x.sign() * (x.abs() / scale).sqrt()
    p, u = pool.projection.weight.detach(), pool.factors.detach()
    signs = torch.tensor([1.0] * (RANK // 2) + [-1.0] * (RANK // 2), dtype=torch.float64)
    y = projected(rooted, pool).detach()
    forms = torch.einsum("bk,kir,kjr,r->bij", g, u, u, signs)
    dy = 2 * y @ forms / 9
    slope = 0.5 / ((x.abs() / scale).sqrt() + 0.1) / scale
    moment = y.mT @ y / 9
    du = 2 * signs * torch.einsum("bk,bij,kjr->kir", g, moment, u)
    for value, expected in zip(found, (dy @ p * slope, (dy.mT @ rooted).sum(0), du, g.sum(0)), strict=True):
        torch.testing.assert_close(value, expected)


def test_parameters_of_the_published_network() -> None:
    pool = LowRankBilinearPool(512, num_classes=200)
    assert sum(p.numel() for p in pool.parameters()) == 51_300 + 160_200
    assert pool.out_features == 200 and pool.output == "scores"
    assert pool.representation(torch.rand(1, 512, 2, 2)).shape == (1, 10_000)


def test_initial_weights_are_small_and_orthogonal() -> None:
    pool = LowRankBilinearPool(64, num_classes=50, bottleneck=20)
    weight = pool.projection.weight
    torch.testing.assert_close(weight @ weight.T, torch.eye(20), rtol=0, atol=1e-5)
    assert abs(float(pool.factors.detach().std()) - 0.01) <= 0.0005 and (pool.bias == 0).all()


def test_init_from_takes_the_leading_singular_vectors() -> None:
    pool = make(sqrt_scale=7.0)
    descriptors = features(1, 50, 5)[0] * torch.tensor([1.0, 9.0, 0.1, 4.0, 0.5])
    pool.init_from(descriptors)
    rooted = descriptors.sign() * (descriptors.abs() / 7).sqrt()
    left, _, _ = torch.linalg.svd(rooted.T)  # (c, k): descriptors as columns
    torch.testing.assert_close((pool.projection.weight @ left).abs(), torch.eye(5).double()[:M])
    assert (pool.projection.bias == 0).all() and pool.projection.weight.requires_grad


def test_attach_adds_no_classifier_and_the_network_loads_from_a_file(tmp_path: Path) -> None:
    network = covpool.attach("test_resnet", "lrbp", num_classes=7, reduce_to=None, bottleneck=12, rank=4).eval()
    x = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    logits = network(x)
    assert logits.shape == (2, 7) and isinstance(network.classifier, torch.nn.Identity)
    logits.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
    covpool.save(network, tmp_path / "lrbp.safetensors")
    again = covpool.load(tmp_path / "lrbp.safetensors").eval()
    assert again.num_classes == 7 and torch.equal(again(x), logits)


def test_wrong_use() -> None:
    with pytest.raises(ValueError, match=r"`rank` must be even.*got 5"):
        LowRankBilinearPool(5, rank=5)
    with pytest.raises(ValueError, match=r"`sqrt_scale` must be positive.*got 0"):
        LowRankBilinearPool(5, sqrt_scale=0)
    with pytest.raises(ValueError, match="`bottleneck` must be at most the number of channels, 5; got 6"):
        make(bottleneck=6).init_from(torch.ones(9, 5))
    with pytest.raises(ValueError, match=r"\(m, 5\), m >= 1,.*got \(9, 4\)"):
        make().init_from(torch.ones(9, 4))
    with pytest.raises(ValueError, match="finite"):
        make().init_from(torch.full((9, 5), torch.nan))
