"""Second divided differences f[i, k, j] of triples of eigenvalues, symmetric in all three.

They give the second derivative of a spectral function, see docs/derivations.md. For close values the quotient of first
differences loses its digits, and Taylor's series around the mean of the triple takes its place.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from covpool.ops import _divided_differences
from covpool.ops.elementary import one_if_zero, reciprocal_or_zero


def of_power(
    x: Tensor,
    y: Tensor,
    z: Tensor,
    alpha: Tensor,  # ()
) -> Tensor:
    """Second divided differences of l^alpha, x, y, z >= 0.

    For alpha < 1 a triple with two zeros is infinite. It gives h^(alpha - 2), its finite part: the slope at zero, which
    counts as 0 here and in the first differences, cancels in the second derivative with respect to the features of a
    covariance. (0, 0, 0) gives 0, and 1 for alpha = 2.
    """
    low, middle, high = _in_order(x, y, z)
    quotient = _quotient(low, middle, high, lambda a, b: _divided_differences.power_of_pair(a, b, alpha))
    found = torch.where(_is_close(low, high), _power_series(low, middle, high, alpha), quotient)
    return torch.where(high == 0, (alpha == 2).to(found.dtype), found)


def of_log(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """Second divided differences of log(l), x, y, z > 0."""
    low, middle, high = _in_order(x, y, z)
    quotient = _quotient(low, middle, high, _divided_differences.log_of_pair)
    mean, h2, h3 = _moments(low, middle, high)
    series = (-1 / 2 - h2 / 4 + h3 / 5) / mean**2
    return torch.where(_is_close(low, high), series, quotient)


def of_vn_mle(
    x: Tensor,
    y: Tensor,
    z: Tensor,
    gamma: Tensor,  # ()
) -> Tensor:
    """Second divided differences of r(l) - b, see `_divided_differences.of_vn_mle`; x, y, z are values of r >= 0."""
    return -reciprocal_or_zero((x + y) * (y + z) * (x + z)) / gamma**2


def _in_order(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The triples sorted, all of one shape."""
    small, large = torch.minimum(x, y), torch.maximum(x, y)
    return torch.minimum(small, z), torch.maximum(small, torch.minimum(large, z)), torch.maximum(large, z)


def _is_close(low: Tensor, high: Tensor) -> Tensor:
    """Where the series is the better: its error is the fourth power of the relative distance, the quotient's 1 / it."""
    return high - low <= torch.finfo(high.dtype).eps ** 0.2 * high


def _quotient(low: Tensor, middle: Tensor, high: Tensor, first: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    return (first(middle, high) - first(low, middle)) / one_if_zero(high - low)


def _moments(low: Tensor, middle: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The mean m, and the complete symmetric polynomials h_2 and h_3 of the deviations from it over m (h_1 = 0)."""
    mean = one_if_zero((low + middle + high) / 3)
    x, y, z = ((value - mean) / mean for value in (low, middle, high))
    return mean, (x**2 + y**2 + z**2) / 2, (x**3 + y**3 + z**3) / 3


def _power_series(low: Tensor, middle: Tensor, high: Tensor, alpha: Tensor) -> Tensor:
    """m^(alpha - 2) (B_2 + B_4 h_2 + B_5 h_3) with the binomial coefficients B_n of alpha."""
    mean, h2, h3 = _moments(low, middle, high)
    two = alpha * (alpha - 1) / 2
    four = two * (alpha - 2) * (alpha - 3) / 12
    return mean ** (alpha - 2) * (two + four * h2 + four * (alpha - 4) / 5 * h3)
