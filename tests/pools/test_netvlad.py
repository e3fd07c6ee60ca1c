"""NetVLAD against direct computation, in float64."""

import math

import pytest
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from cases import features
from covpool.pools import VladPool

both_versions = pytest.mark.parametrize("version", ["v1", "v2"])


def made(c: int = 4, clusters: int = 3, **options: object) -> VladPool:
    """Make a float64 pool with unrelated words, weights and biases, as after training."""
    torch.manual_seed(0)
    pool = VladPool(c, clusters=clusters, **options).double()
    with torch.no_grad():
        for p in pool.parameters():
            p.copy_(torch.randn_like(p))
    return pool


def unit(x: Tensor) -> Tensor:
    return x / (x.square().sum(-1, keepdim=True) + 1e-12).sqrt()


def residuals(pool: VladPool, x: Tensor) -> Tensor:
    """Compute V (b, k, c) from all positions, words and channels."""
    x = unit(x) if pool.pre_l2 else x
    bias = 0 if pool.assign_bias is None else pool.assign_bias
    a = torch.softmax(x @ pool.assign_weight.T + bias, -1)
    return (a.unsqueeze(-1) * (x.unsqueeze(2) - pool.centers)).sum(1)


def set_alpha(pool: VladPool, words: Tensor, alpha: float) -> None:
    """Return the initial parameters of the second version."""
    with torch.no_grad():
        pool.centers.copy_(words)
        pool.assign_weight.copy_(2 * alpha * words)
        pool.assign_bias.copy_(-alpha * words.square().sum(-1))


@both_versions
@pytest.mark.parametrize("pre_l2", [True, False])
def test_equals_the_formula(version: str, pre_l2: bool) -> None:
    pool, x = made(version=version, pre_l2=pre_l2), features(2, 9, 4)
    torch.testing.assert_close(pool(x), unit(unit(residuals(pool, x)).flatten(1)))
    torch.testing.assert_close(pool(x).norm(dim=1), torch.ones(2, dtype=torch.float64))


@both_versions
def test_gradients_of_features_and_parameters(version: str) -> None:
    pool, x = made(version=version), features(2, 5, 4).requires_grad_()
    inputs = (x, *pool.parameters())
    g = features(2, 1, 12, seed=1)[:, 0]
    found = torch.autograd.grad((pool(x) * g).sum(), inputs)
    expected = torch.autograd.grad((unit(unit(residuals(pool, x)).flatten(1)) * g).sum(), inputs)
    for f, e in zip(found, expected, strict=True):
        torch.testing.assert_close(f, e)


def test_sharp_assignment_is_hard_vlad() -> None:
    pool, x, words = made(version="v2"), features(2, 30, 4), unit(features(1, 3, 4, seed=1)[0])
    set_alpha(pool, words, 1e6)
    expected = torch.zeros(2, 3, 4, dtype=torch.float64)
    for i, item in enumerate(unit(x)):
        for position in item:
            nearest = min(range(3), key=lambda k: float((position - words[k]).norm()))
            expected[i, nearest] += position - words[nearest]
    torch.testing.assert_close(pool(x), unit(unit(expected).flatten(1)))


def test_second_version_assigns_by_distance() -> None:
    pool, x, words = made(version="v2"), features(2, 9, 4), features(1, 3, 4, seed=1)[0]
    set_alpha(pool, words, 0.7)
    a = torch.softmax(-0.7 * torch.cdist(unit(x), words).square(), -1)
    v = (a.unsqueeze(-1) * (unit(x).unsqueeze(2) - words)).sum(1)
    torch.testing.assert_close(pool(x), unit(unit(v).flatten(1)))


def test_features_equal_to_a_word_have_no_residual() -> None:
    pool, words = made(version="v2", pre_l2=False), features(1, 3, 4, seed=1)[0]
    set_alpha(pool, words, 1.0)
    z = pool(words[1].expand(2, 9, 4)).unflatten(1, (3, 4))
    assert z[:, 1].abs().max() < 1e-8
    assert (z[:, ::2].norm(dim=-1) > 0.5).all()


def test_one_word_sums_the_residuals() -> None:
    pool, x = made(clusters=1), features(2, 9, 4)
    total = unit(x).sum(1) - 9 * pool.centers
    torch.testing.assert_close(pool(x), unit(unit(total)))


def test_integer_weights_equal_repeated_positions() -> None:
    pool, x = made(), features(2, 3, 4)
    weights = torch.tensor([[1.0, 1.0, 2.0]] * 2, dtype=torch.float64)
    torch.testing.assert_close(pool(x, weights=weights), pool(x[:, [0, 1, 2, 2]]))


@both_versions
def test_init_from_data(version: str) -> None:
    pool, x = VladPool(4, clusters=5, version=version).double(), features(1, 200, 4)[0]
    words = KMeans(5, n_init=1, random_state=0).fit(unit(x).numpy())
    centers = torch.from_numpy(words.cluster_centers_)
    pool.init_from(x, centers=centers)
    torch.testing.assert_close(pool.centers.detach(), centers)
    scores = unit(x) @ unit(centers).T if version == "v1" else -torch.cdist(unit(x), centers).square()
    ordered = scores.sort(-1, descending=True).values
    alpha = -math.log(0.01) / float((ordered[:, 0] - ordered[:, 1]).mean())
    if version == "v1":
        assert pool.assign_bias is None
        torch.testing.assert_close(pool.assign_weight.detach(), alpha * unit(centers))
    else:
        torch.testing.assert_close(pool.assign_weight.detach(), 2 * alpha * centers)
        torch.testing.assert_close(pool.assign_bias.detach(), -alpha * centers.square().sum(-1))


def test_init_from_data_clusters_by_default() -> None:
    corners = torch.eye(3, dtype=torch.float64)
    x = corners.repeat(20, 1) + 0.01 * features(1, 60, 3)[0]
    pool = VladPool(3, clusters=3).double()
    pool.init_from(x)
    torch.testing.assert_close(pool.centers.detach()[(-pool.centers).argmin(0)], corners, rtol=0, atol=0.02)


def test_published_size_and_parameters() -> None:
    with torch.device("meta"):
        pools = [VladPool(512, version=version) for version in ("v1", "v2")]
    assert [pool.out_features for pool in pools] == [32768, 32768]
    assert [sum(p.numel() for p in pool.parameters()) for pool in pools] == [2 * 64 * 512, 2 * 64 * 512 + 64]


def test_wrong_use() -> None:
    with pytest.raises(ValueError, match="version"):
        VladPool(4, version="v3")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"`centers` must have shape \(3, 4\); got \(4, 3\)"):
        made().init_from(features(1, 9, 4)[0], centers=torch.zeros(4, 3))
