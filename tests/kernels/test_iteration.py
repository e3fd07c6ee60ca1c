"""covpool.kernels.iteration: the sequence of steps gives the plain iteration, for many eigenvalues in float64."""

import pytest
import torch
import triton
import triton.language as tl

from covpool.kernels.iteration import coefficients, count_steps, last_operands, operands, step_of
from kernels.oracles import DEVICE

# fmt: off

A_SLOT, A_SCALE = 4, 256.0


@triton.jit
def plan_kernel(slots, found, numbers, iterations, steps, a_scale, FACTOR: tl.constexpr):
    """Return, for every step, the slots of x, z, D and the result and the coefficients, then the slots of the last."""
    for index in range(steps):
        step, pair = step_of(index, steps)
        x, z, d, out = operands(slots + 4, slots, step, pair, 1, FACTOR)
        tl.store(found + 4 * index, tl.load(x))
        tl.store(found + 4 * index + 1, tl.load(z))
        tl.store(found + 4 * index + 2, tl.load(d))
        tl.store(found + 4 * index + 3, tl.load(out))
        alpha, beta, gamma = coefficients(step, pair, a_scale)
        tl.store(numbers + 3 * index, alpha)
        tl.store(numbers + 3 * index + 1, beta)
        tl.store(numbers + 3 * index + 2, gamma)
    x, z = last_operands(slots, iterations, 1, FACTOR)
    tl.store(found + 4 * steps, tl.load(x))
    tl.store(found + 4 * steps + 1, tl.load(z))

# fmt: on


@pytest.mark.parametrize("factor", [True, False])
@pytest.mark.parametrize("iterations", [3, 4, 5, 6, 7])
def test_the_steps_make_the_iteration(iterations: int, factor: bool) -> None:
    steps = count_steps(iterations)
    found = torch.full((steps + 1, 4), -1, device=DEVICE)
    numbers = torch.zeros(steps, 3, device=DEVICE)
    slots = torch.arange(5, device=DEVICE)  # a slot holds its own number
    plan_kernel[(1,)](slots, found, numbers, iterations, steps, A_SCALE, FACTOR=factor)
    eigenvalues = torch.linspace(0, 1, 101, dtype=torch.float64)
    held = {A_SLOT: eigenvalues * A_SCALE}
    *plan, (r, last, _, _) = found.tolist()
    for (x, z, d, out), (alpha, beta, gamma) in zip(plan, numbers.tolist(), strict=True):
        assert out not in (x, z, A_SLOT)
        held[out] = alpha * held[x] * held[z] + (beta * held[d] if beta else 0) + gamma
    y, p = eigenvalues, torch.ones_like(eigenvalues)
    for _ in range(iterations):
        t = 1.5 - 0.5 * p * y
        y, p = y * t, p * t
    expected = p if factor else A_SCALE * y
    torch.testing.assert_close(held[r] * held[last], expected, rtol=1e-12, atol=0)
