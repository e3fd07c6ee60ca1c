"""k-means clustering in torch: k-means++ seeding, then Lloyd's steps."""

import torch
from torch import Tensor

from covpool._errors import CovpoolError, check_positive_int
from covpool.ops.squared_distances import squared_distances


@torch.no_grad()
def kmeans(
    x: Tensor,  # (m, c)
    clusters: int,
    *,
    iterations: int = 20,
    seed: int = 0,
) -> Tensor:  # (clusters, c)
    """The centers of k clusters, which locally minimize sum_i min_k |x_i - c_k|^2.

    Computed in float64 on the device of x. A seed gives the same start on every device. A cluster that loses all its
    points keeps its centre.

    Args:
        x: Descriptors, one per row, at least as many as clusters.
        clusters: Number of clusters k.
        iterations: Number of Lloyd's steps after the seeding.
        seed: Seed of the k-means++ choice.

    Shape: (m, c) -> (k, c), in the dtype of x.

    Reference: Arthur and Vassilvitskii, "k-means++: The Advantages of Careful Seeding", 2007.

    >>> import torch
    >>> kmeans(torch.tensor([[0.], [1.], [10.], [11.]]), 2).sort(0).values.tolist()
    [[0.5], [10.5]]
    """
    check_positive_int("clusters", clusters)
    if x.ndim != 2 or len(x) < clusters:
        raise CovpoolError(f"`x` must have shape (m, c) with m >= {clusters} clusters; got {tuple(x.shape)}")
    points = x.double()
    centers = _seeds(points, clusters, seed)
    for _ in range(iterations):
        members = one_hot(squared_distances(points, centers).argmin(-1), clusters)
        counts = members.sum(0).unsqueeze(-1)
        centers = torch.where(counts > 0, members.mT @ points / counts.clamp(min=1), centers)
    return centers.to(x.dtype)


def one_hot(
    index: Tensor,  # (m,)
    clusters: int,
) -> Tensor:  # (m, clusters), float64
    """The cluster of each point as a one-hot row."""
    return torch.nn.functional.one_hot(index, clusters).double()


def _seeds(points: Tensor, clusters: int, seed: int) -> Tensor:
    """Points chosen one after another, each with probability proportional to its squared distance from those before."""
    chance = torch.rand(clusters, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(points.device)
    last = (chance[:1] * len(points)).long()
    chosen, nearest = [last], squared_distances(points, points[last])
    for draw in chance[1:]:
        cumulative = nearest.clamp(min=0).flatten().cumsum(0)
        last = torch.searchsorted(cumulative, draw * cumulative[-1:], right=True).clamp(max=len(points) - 1)
        chosen.append(last)
        nearest = torch.minimum(nearest, squared_distances(points, points[last]))
    return points[torch.cat(chosen)]
