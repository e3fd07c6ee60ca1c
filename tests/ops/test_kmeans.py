"""k-means against its own definition and scikit-learn's."""

import pytest
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from cases import generator
from covpool.ops.kmeans import kmeans
from ops.oracles import randn


def cost(x: Tensor, centers: Tensor) -> float:
    return float(torch.cdist(x, centers).square().amin(-1).sum())


def blobs(m: int = 60, spread: float = 0.1) -> tuple[Tensor, Tensor]:
    """Points around five far corners, and the corners."""
    corners = 10 * torch.eye(5, 3, dtype=torch.float64) + 5 * torch.arange(5.0, dtype=torch.float64)[:, None]
    return corners.repeat(m // 5, 1) + spread * randn(m, 3), corners


def test_finds_separated_clusters() -> None:
    x, corners = blobs()
    found = kmeans(x, 5)
    nearest = torch.cdist(corners, found).argmin(-1)
    assert sorted(nearest.tolist()) == [0, 1, 2, 3, 4]
    expected = torch.stack([x[i::5].mean(0) for i in range(5)])
    torch.testing.assert_close(found[nearest], expected)


@pytest.mark.parametrize("seed", range(3))
def test_as_good_as_scikit_learn(seed: int) -> None:
    x = randn(300, 4, seed=seed)
    theirs = KMeans(8, n_init=1, random_state=seed).fit(x.numpy()).inertia_
    assert cost(x, kmeans(x, 8, seed=seed, iterations=100)) < 1.05 * theirs


def test_ends_at_a_fixed_point_of_lloyd() -> None:
    x = randn(200, 3)
    centers = kmeans(x, 6, iterations=200)
    own = torch.cdist(x, centers).argmin(-1)
    torch.testing.assert_close(torch.stack([x[own == k].mean(0) for k in range(6)]), centers)


def test_the_seed_decides() -> None:
    x = randn(100, 3)
    torch.testing.assert_close(kmeans(x, 7, seed=1), kmeans(x, 7, seed=1), rtol=0, atol=0)
    assert not torch.equal(kmeans(x, 7, seed=1), kmeans(x, 7, seed=2))
    assert torch.equal(kmeans(x, 7), kmeans(x, 7, seed=0))


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_scale_and_offset(scale: float) -> None:
    x, _ = blobs()
    torch.testing.assert_close(kmeans(scale * x, 5), scale * kmeans(x, 5))
    shifted = kmeans((x + 1e4).float(), 5)
    assert shifted.dtype == torch.float32
    torch.testing.assert_close(shifted, (kmeans(x, 5) + 1e4).float(), rtol=1e-6, atol=0)


def test_fewer_distinct_points_than_clusters() -> None:
    x = torch.tensor([[0.0], [1.0]]).repeat(10, 1)
    found = kmeans(x, 4)
    assert set(found.flatten().tolist()) == {0.0, 1.0}
    assert kmeans(torch.zeros(5, 2), 3).tolist() == [[0, 0]] * 3


def test_as_many_clusters_as_points_keeps_the_points() -> None:
    x = torch.randperm(6, generator=generator()).double().unsqueeze(-1)
    torch.testing.assert_close(kmeans(x, 6).sort(0).values, torch.arange(6.0, dtype=torch.float64).unsqueeze(-1))


def test_wrong_use() -> None:
    with pytest.raises(ValueError, match=r"m >= 5 clusters; got \(4, 2\)"):
        kmeans(torch.zeros(4, 2), 5)
    with pytest.raises(ValueError, match="positive integer"):
        kmeans(torch.zeros(4, 2), 0)
