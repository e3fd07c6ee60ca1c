"""The eigenvalues of the covariance of features before a pool normalises it, and after."""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from covpool._check import check_positive_int
from covpool._check_tensors import check_features, check_floating
from covpool.ops import covariance, unvech
from covpool.ops.positions import center
from covpool.ops.powm_eigh import null_threshold
from covpool.pools import Pool
from covpool.pools.cov import CovariancePool
from covpool.pools.deepo2p import LogEuclideanPool
from covpool.pools.dropcov import DropoutCovariancePool
from covpool.pools.improved_bcnn import ImprovedBilinearPool
from covpool.pools.isqrt import IterativeSquareRootPool
from covpool.pools.mpn import MatrixPowerPool
from covpool.pools.triangle import triangle

# Their pooled vector is a symmetric matrix of the order of the channels, written as its triangle or in full.
MATRICES = (CovariancePool, DropoutCovariancePool, MatrixPowerPool, IterativeSquareRootPool, LogEuclideanPool)
NOT_CENTERED = (LogEuclideanPool, ImprovedBilinearPool)


@dataclass(frozen=True)
class Spectra:
    """Eigenvalues of a sample of images, largest first.

    Attributes:
        before: (b, c), of the covariance of what is pooled (of the second moment, for a pool that does not centre).
        after: (b, c), of the matrix that the pool makes of it; None for a pool that makes no such matrix.
        positions: n, how many features each covariance comes from: no more than n eigenvalues can differ from zero.
        centered: whether `before` is of the covariance.
    """

    before: Tensor
    after: Tensor | None
    positions: int
    centered: bool = True


@dataclass(frozen=True)
class Histogram:
    """How eigenvalues are distributed over equal steps of log10.

    Attributes:
        edges: (bins + 1,), of the bins, in log10.
        share: (bins,), of all eigenvalues.
        zero: the share that are zero (or negative), and have no logarithm.
    """

    edges: Tensor
    share: Tensor
    zero: float


def spectrum(
    x: Tensor,  # (..., n, c)
    *,
    centered: bool = True,
) -> Tensor:  # (..., c)
    """The eigenvalues of the covariance of features over positions, in float64, largest first.

    They are those of the smaller of the covariance and the Gram matrix of the positions, filled up with zeros. What is
    within round-off of zero is zero.

    Args:
        x: features, one row per position.
        centered: False takes the second moment about zero.

    >>> spectrum(torch.tensor([[2.0, 0.0], [-2.0, 0.0]])).tolist()
    [4.0, 0.0]
    """
    check_features(x)
    n, c = x.shape[-2:]
    xc = center(x.double(), None, centered)
    gram = xc @ xc.mT / n if n < c else xc.mT @ xc / n
    values = _eigenvalues(gram, c).clamp(min=0)
    return torch.nn.functional.pad(values, (0, c - values.shape[-1]))


@torch.no_grad()
def pool_spectra(
    pool: Pool,
    *features: Tensor,  # as the pool takes them, one batch
) -> Spectra:
    """The spectra of what a pool gets, after its reduction, and of the matrix it makes of it, computed in float64.

    A pool of several feature tensors is looked at through its first.

    Args:
        pool: any pool; it is left as it is.
        features: what `pool.forward` takes.

    >>> import covpool
    >>> found = pool_spectra(covpool.create_pool("mpn", 4), torch.randn(2, 4, 7, 7))
    >>> torch.allclose(found.after, found.before.sqrt())
    True
    """
    exact = copy.deepcopy(pool).cpu().double().eval()
    inputs = tuple(f.detach().cpu().double() for f in features)
    x = exact._apply_method(lambda *reduced, **_: reduced[0], inputs, None, None)
    centered = not isinstance(pool, NOT_CENTERED)
    made = _made(exact, x)
    after = None if made is None else _eigenvalues(made, made.shape[-1])
    return Spectra(spectrum(x, centered=centered), after, x.shape[-2], centered)


def log_histogram(
    eigenvalues: Tensor,
    *,
    bins: int = 48,
    span: tuple[float, float] | None = None,
) -> Histogram:
    """The histogram of eigenvalues over log10, as the paper shows them.

    Args:
        eigenvalues: of any shape.
        bins: how many steps.
        span: from and to, in log10; by default from the least to the largest positive eigenvalue. Those outside count
            in the first and the last bin.

    >>> log_histogram(torch.tensor([100.0, 1.0, 0.01, 0.0]), bins=2).share.tolist()
    [0.25, 0.5]
    """
    check_floating("eigenvalues", eigenvalues)
    check_positive_int("bins", bins)
    values = eigenvalues.detach().double().flatten()
    logs = values[values > 0].log10()
    low, high = span or ((float(logs.min()), float(logs.max())) if len(logs) else (-1.0, 0.0))
    if high <= low:  # one value alone is given a decade
        low, high = low - 0.5, low + 0.5
    edges = torch.linspace(low, high, bins + 1, dtype=torch.float64)
    place = ((logs - low) / (high - low) * bins).floor().long().clamp(0, bins - 1)
    total = max(len(values), 1)
    return Histogram(edges, torch.bincount(place, minlength=bins) / total, (len(values) - len(logs)) / total)


def _eigenvalues(a: Tensor, order: int) -> Tensor:  # (..., r, r) -> (..., r)
    """Largest first; what is round-off of a matrix of this order is zero."""
    values = torch.linalg.eigvalsh(a).flip(-1)
    sizes = values.abs()
    return torch.where(sizes <= null_threshold(sizes.amax(-1, keepdim=True), "rank", order), 0, values)


def _made(pool: Pool, x: Tensor) -> Tensor | None:  # (b, c, c)
    """The matrix of the order of the channels that the pool makes of its covariance, before it becomes a vector."""
    if isinstance(pool, ImprovedBilinearPool):
        return pool._root(covariance(x, centered=False))
    if not isinstance(pool, MATRICES):
        return None
    z = pool._pool(x, mask=None, weights=None)
    c = x.shape[-1]
    return unvech(z) if z.shape[-1] == triangle(c) else z.unflatten(-1, (c, c))
