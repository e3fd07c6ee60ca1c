"""A mixture of Gaussians with diagonal covariances: its posteriors and weighted moments, by two matrix products."""

from typing import NamedTuple

import torch
from torch import Tensor

from covpool.ops.precision import full_precision
from covpool.ops.product import product

# How many times the squares of the standardised means may exceed those about their middle: one decimal digit is lost.
OFFSET = 100.0


class Moments(NamedTuple):
    """Sums over positions under the posteriors g_ik, of u_ik = w_k x_i + b_k."""

    mass: Tensor  # (b, k), sum g
    first: Tensor  # (b, k, c), sum g u
    second: Tensor  # (b, k, c), sum g u^2


@full_precision
def mixture_moments(
    x: Tensor,  # (b, n, c)
    log_weights: Tensor,  # (k,)
    w: Tensor,  # (k, c), not zero
    b: Tensor,  # (k, c)
    *,
    weights: Tensor | None = None,  # (b, n)
) -> Moments:
    """The moments of standardised features under g_ik = softmax_k(log pi_k + sum log|w_k| - |w_k x_i + b_k|^2 / 2).

    w = 1 / sigma and b = -mean / sigma, so g are the posteriors of the mixture's components. All comes from the rows
    [x, x^2], as |w x + b|^2 = w^2.x^2 + 2 w b.x + b.b; nothing of size (b, n, k, c) is formed. A large offset that the
    means share is taken out of x first, so it costs no accuracy; means far apart, in units of sigma, do.

    Args:
        x: features.
        log_weights: log pi, up to a constant.
        w, b: the reciprocal standard deviations and standardised negative means.
        weights: of the positions, multiplied into g; one by default.

    Shape: (b, n, c) -> (b, k), (b, k, c), (b, k, c).

    >>> import torch
    >>> one = torch.ones(1, 1)
    >>> [m.item() for m in mixture_moments(torch.tensor([[[1.], [2.]]]), torch.zeros(1), one, -one)]
    [2.0, 1.0, 1.0]
    """
    middle = _middle(w.detach(), b.detach())
    x, b = x - middle, b + w * middle
    powers = torch.cat((x, x * x), -1)  # (b, n, 2 c)
    slopes = torch.cat((-w * b, -0.5 * w * w), -1)  # (k, 2 c), of the log-densities in the powers
    constants = log_weights + w.abs().log().sum(-1) - 0.5 * (b * b).sum(-1)
    logits = product(powers.flatten(0, 1), slopes.mT).unflatten(0, x.shape[:2]) + constants
    g = logits.softmax(-1)
    if weights is not None:
        g = g * weights.unsqueeze(-1)
    mass = g.sum(1)
    sums, squares = product(g.mT, powers).chunk(2, -1)  # (b, k, c) each
    m = mass.unsqueeze(-1)
    return Moments(mass, w * sums + m * b, w * w * squares + 2 * w * b * sums + m * b * b)


def _middle(w: Tensor, b: Tensor) -> Tensor:  # (k, c), (k, c) -> (c,)
    """The point about which the standardised means are smallest, in channels where they are far from zero; else zero.

    In the others zeros stay exact: where a channel is dead for a component, after a ReLU, its first moment is zero,
    not a round-off for a square root to blow up.
    """
    middle = -(w * b).sum(0) / (w * w).sum(0)
    about_middle = ((b + w * middle) ** 2).sum(0) + len(w)
    return torch.where((b * b).sum(0) > OFFSET * about_middle, middle, 0)
