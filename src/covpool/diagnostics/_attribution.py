"""Which positions, and which channels or pairs of channels, a score comes from."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from covpool._errors import CovpoolError
from covpool.models import Network
from covpool.pools.avg import AveragePool
from covpool.pools.max import MaxPool

ONE_PER_CHANNEL = (AveragePool, MaxPool)  # their vector has one number per channel
SAME = 1e-6  # relative error up to which a pool counts as homogeneous; float64 leaves about 1e-12


@dataclass(frozen=True)
class Attribution:
    """The parts of a class's score, for each image of a batch.

    Attributes:
        scores: Scores (b,) without the bias of the classifier.
        positions: Contributions (b, n) of the positions. They add up to the score.
        parts: Contributions that add up to the score too: (b, c, c) of the pairs of channels, half of each at (i, j)
            and at (j, i), or, for average and max pooling, (b, c) of the channels.
    """

    scores: Tensor
    positions: Tensor
    parts: Tensor


def attribute(
    network: Network,
    features: Tensor | tuple[Tensor, ...],  # as the pool takes them, one batch
    targets: Tensor,  # (b,)
) -> Attribution:
    """Divide the score of a class into contributions of positions and of pairs of channels, exactly and in float64.

    The score is linear in the pool's matrix, so each of its entries contributes itself times its weight. If the pool is
    homogeneous of degree p, z(t x) = t^p z(x), the contribution of position i is <x_i, ds / dx_i> / p (Euler's
    theorem), with x_i centered if the pool centers. p is 2 for a covariance and 1 for its square root. For average and
    max pooling, whose vector has a number per channel, p is 1 and channels take the place of pairs.

    Args:
        network: A network whose classifier is linear and whose vector is a matrix of channels by channels, or that of
            average or max pooling.
        features: Output of `network.forward_features`, with one feature map.
        targets: The class of each image whose score is divided.

    >>> import covpool
    >>> network = covpool.attach("torchvision/resnet18", "cov", num_classes=3, reduce_to=4).eval()
    >>> found = attribute(network, torch.randn(1, 512, 7, 7), torch.tensor([2]))
    >>> torch.allclose(found.positions.sum(1), found.scores), torch.allclose(found.parts.sum((1, 2)), found.scores)
    (True, True)
    """
    pool, layer = network.pool, network.classifier
    is_direct = not len(pool.normalize) and pool.project is None
    is_matrix = pool.normalizes is not None
    if not (is_matrix or isinstance(pool, ONE_PER_CHANNEL)) or not is_direct or not isinstance(layer, nn.Linear):
        options = "" if is_direct else " with its options"
        raise CovpoolError(
            "contributions need a linear classifier directly on a matrix of channels by channels, such as that of cov, "
            "mpn or isqrt, or on the vector of avg or max; "
            f"got {type(layer).__name__} on {type(pool).__name__}{options}"
        )
    maps = features if isinstance(features, tuple) else (features,)
    if len(maps) > 1:
        raise CovpoolError(f"contributions of positions need one feature map; this network has {len(maps)}")
    exact = copy.deepcopy(pool).cpu().double().eval()
    pooled = exact._matrix if is_matrix else exact._pool_kept
    with torch.no_grad():
        x = exact._apply_method(lambda *reduced, **_: reduced[0], (maps[0].detach().cpu().double(),), None, None)
        degree = _degree(pooled, x, type(pool).__name__)
    if pool.normalizes == "covariance":
        x = x - x.mean(1, keepdim=True)
    x.requires_grad_()
    weights = layer.weight.detach().cpu().double()[targets.cpu()]
    with torch.enable_grad():
        parts = pooled(x) * (_as_matrices(weights, x.shape[-1]) if is_matrix else weights)
        (slope,) = torch.autograd.grad(parts.sum(), x)
    parts = parts.detach()
    return Attribution(parts.flatten(1).sum(1), (x * slope).sum(2).detach() / degree, parts)


def _as_matrices(weights: Tensor, c: int) -> Tensor:  # (b, d) -> (b, c, c)
    """The weights of all entries of a symmetric matrix; one of the upper triangle is divided between two entries."""
    if weights.shape[-1] == c * c:
        return weights.unflatten(-1, (c, c))
    rows, columns = torch.triu_indices(c, c).unbind()
    full = weights.new_zeros(len(weights), c, c)
    full[:, rows, columns] = weights / 2
    return full + full.mT


def _degree(pooled: Callable[[Tensor], Tensor], x: Tensor, name: str) -> float:
    """The degree p of homogeneity, from z(2 x) = 2^p z(x)."""
    once, twice = pooled(x), pooled(2 * x)
    degree = math.log2(max(float(twice.norm() / once.norm()), 1e-9)) if float(once.norm()) else 0.0
    if degree < 0.5 or float((twice - 2**degree * once).norm()) > SAME * float(twice.norm()):
        raise CovpoolError(
            f"contributions of positions need a pool whose vector scales with the features; {name} with its options "
            "does not"
        )
    return degree
