"""Two iterations of Newton-Schulz at once, in five products instead of six.

With D = P Y, an iteration multiplies Y and P by T = (3 I - D) / 2, and D by T^2. Two of them multiply Y and P by a
polynomial Q of degree four in D, and D by Q^2. Q is a square plus a linear term:

    Q = (M^2 - 8.625 D + 24.609375 I) / 16,  M = D^2 - 4.5 D + 3.375 I.

R is Y or P, whichever is the result. A chain of N iterations starts with D = A, where Y is E = A Q and P is Q. It ends
with R T of a single iteration when N is odd, and with R Q otherwise. All these matrices are polynomials of A, so they
are symmetric, and so are their derivatives in a symmetric direction.

The iterates share four slots of a workspace. D is stored times a scale that falls by a factor of four with each pair of
iterations, because the derivative of D grows, by 2.25^2 where the eigenvalue is zero.
"""

import triton
import triton.language as tl

# fmt: off

INNER = tl.constexpr(0)  # M from D
QUARTIC = tl.constexpr(1)  # Q from M and D
HALFWAY = tl.constexpr(2)  # E = D Q
NEXT = tl.constexpr(3)  # E Q, the next D
RESULT = tl.constexpr(4)  # R Q, the next R
SINGLE = tl.constexpr(5)  # T of the next D; replaces NEXT before a last single iteration

D_SLOT = tl.constexpr(2)


def count_steps(iterations: int) -> int:
    """The number of products before the last one.

    >>> [count_steps(n) for n in (3, 4, 5, 6, 7)]
    [4, 6, 9, 11, 14]
    """
    return 4 + 5 * ((iterations - 3) // 2) + (0 if iterations % 2 else 2)


@triton.jit
def step_of(index, steps):
    """The kind of step number `index`, and its pair of iterations.

    The first pair has no RESULT. A pair before a last single iteration ends with SINGLE, or with SINGLE and RESULT.
    """
    place = index + tl.where(index >= 4, 1, 0)
    step = place % 5
    return tl.where((step == NEXT) & (index >= steps - 2), SINGLE, step), place // 5


@triton.jit
def slots_of(pair, FACTOR: tl.constexpr):
    """The slots of R, of M and E, and of Q. R and M swap slots with every pair."""
    r = (pair + (0 if FACTOR else 1)) % 2
    return r, tl.where(pair == 0, 0, 1 - r), tl.where(pair == 0, 1, 3)


@triton.jit
def operands(a, workspace, step, pair, AREA: tl.constexpr, FACTOR: tl.constexpr):
    """Pointers to x, z and D of a step, and to its result."""
    r, m, q = slots_of(pair, FACTOR)
    inner = workspace + m * AREA
    quartic = workspace + q * AREA
    following = workspace + D_SLOT * AREA
    d = tl.where(pair == 0, a, following)
    x = tl.where((step == INNER) | (step == HALFWAY), d, tl.where(step == RESULT, workspace + r * AREA, inner))
    z = tl.where(step == INNER, d, tl.where(step == QUARTIC, inner, quartic))
    out = tl.where(step == QUARTIC, quartic, tl.where((step == NEXT) | (step == SINGLE), following, inner))
    return x, z, d, out


@triton.jit
def last_operands(workspace, iterations, AREA: tl.constexpr, FACTOR: tl.constexpr):
    """Pointers to the operands of the last product: R, and T or Q."""
    r, _, q = slots_of((iterations - 1) // 2, FACTOR)
    return workspace + r * AREA, workspace + tl.where(iterations % 2 == 1, D_SLOT, q) * AREA


@triton.jit
def coefficients(step, pair, a_scale):
    """alpha, beta and gamma of a step, which stores alpha x z + beta D + gamma I. `a_scale` is the scale of A.

    There are scales for three pairs, enough for 7 iterations.
    """
    scale = tl.where(pair == 0, a_scale, tl.where(pair == 1, a_scale / 4, a_scale / 16))
    alpha = tl.where(step == INNER, 1.0 / (scale * scale), 1.0)
    alpha = tl.where(step == QUARTIC, 0.0625, alpha)
    alpha = tl.where(step == NEXT, 0.25, alpha)
    alpha = tl.where(step == SINGLE, -0.5 / scale, alpha)
    beta = tl.where(step == INNER, -4.5 / scale, tl.where(step == QUARTIC, -0.5390625 / scale, 0.0))
    gamma = tl.where(step == INNER, 3.375, tl.where(step == QUARTIC, 1.5380859375, 0.0))
    return alpha, beta, tl.where(step == SINGLE, 1.5, gamma)
