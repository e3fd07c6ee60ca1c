"""Eigenvalues of the covariance of features, before and after a pool normalizes it."""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from covpool._check_tensors import check_features, check_floating
from covpool._errors import check_positive_int
from covpool.ops.positions import center
from covpool.ops.powm_eigh import null_threshold
from covpool.pools import Pool


@dataclass(frozen=True)
class Spectra:
    """Eigenvalues for a batch of images, largest first.

    Attributes:
        before: Eigenvalues (b, c) of the covariance of the pooled features, or of their second moment about zero for a
            pool that does not center them.
        after: Eigenvalues (b, c) of the pool's normalized matrix; None for a pool without such a matrix.
        positions: Number n of positions per image. At most n eigenvalues differ from zero.
        centered: Whether `before` belongs to the covariance rather than the second moment.
    """

    before: Tensor
    after: Tensor | None
    positions: int
    centered: bool = True


@dataclass(frozen=True)
class Histogram:
    """The distribution of eigenvalues over equal steps of log10.

    Attributes:
        edges: Edges (bins + 1,) of the bins, in log10.
        share: Share (bins,) of all eigenvalues in each bin.
        zero: Share of eigenvalues that are zero or negative and have no logarithm.
    """

    edges: Tensor
    share: Tensor
    zero: float


def spectrum(
    x: Tensor,  # (..., n, c)
    *,
    centered: bool = True,
) -> Tensor:  # (..., c)
    """Return the eigenvalues of the covariance of features over positions, in float64, largest first.

    They are computed from the smaller of the covariance and the Gram matrix of the positions, and padded with zeros.
    Eigenvalues within round-off of zero are set to zero.

    Args:
        x: Features, one row per position.
        centered: False uses the second moment about zero.

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
    """Return the spectra of a pool's input after the reduction, and of its normalized matrix, in float64.

    For a pool of several feature tensors, the first one is used.

    Args:
        pool: Any pool; it is not changed.
        features: Input of `pool.forward`.

    >>> import covpool
    >>> found = pool_spectra(covpool.create_pool("mpn", 4), torch.randn(2, 4, 7, 7))
    >>> torch.allclose(found.after, found.before.sqrt())
    True
    """
    exact = copy.deepcopy(pool).cpu().double().eval()
    inputs = tuple(f.detach().cpu().double() for f in features)
    x = exact._apply_method(lambda *reduced, **_: reduced[0], inputs, None, None)
    centered = pool.normalizes != "moment"
    after = None if pool.normalizes is None else _eigenvalues(exact._matrix(x), x.shape[-1])
    return Spectra(spectrum(x, centered=centered), after, x.shape[-2], centered)


def log_histogram(
    eigenvalues: Tensor,
    *,
    bins: int = 48,
    span: tuple[float, float] | None = None,
) -> Histogram:
    """Return the histogram of eigenvalues over log10, as the paper plots them.

    Args:
        eigenvalues: Eigenvalues in a tensor of any shape.
        bins: Number of bins.
        span: First and last edge in log10; by default the smallest and largest positive eigenvalue. Eigenvalues outside
            count in the first or last bin.

    >>> log_histogram(torch.tensor([100.0, 1.0, 0.01, 0.0]), bins=2).share.tolist()
    [0.25, 0.5]
    """
    check_floating("eigenvalues", eigenvalues)
    check_positive_int("bins", bins)
    values = eigenvalues.detach().double().flatten()
    logs = values[values > 0].log10()
    low, high = span or ((float(logs.min()), float(logs.max())) if len(logs) else (-1.0, 0.0))
    if high <= low:  # a single value gets a span of one decade
        low, high = low - 0.5, low + 0.5
    edges = torch.linspace(low, high, bins + 1, dtype=torch.float64)
    index = ((logs - low) / (high - low) * bins).floor().long().clamp(0, bins - 1)
    total = max(len(values), 1)
    return Histogram(edges, torch.bincount(index, minlength=bins) / total, (len(values) - len(logs)) / total)


def _eigenvalues(a: Tensor, order: int) -> Tensor:  # (..., r, r) -> (..., r)
    """Return the eigenvalues, largest first; those within round-off of a matrix of this order are zero."""
    values = torch.linalg.eigvalsh(a).flip(-1)
    sizes = values.abs()
    return torch.where(sizes <= null_threshold(sizes.amax(-1, keepdim=True), "rank", order), 0, values)
