"""covpool.kernels.pair: the factor and the root with their derivatives, on one given matrix."""

import pytest
import torch

from covpool.kernels import launch
from covpool.kernels.precision import mode
from kernels.oracles import DEVICE, SEVERAL_TILES, newton_schulz, operand, problem, randn
from ops.oracles import relative_error


@pytest.mark.usefixtures("launch")
@pytest.mark.parametrize("factor", [True, False])
@pytest.mark.parametrize("iterations", [3, 4, 5, 6, 7])
def test_the_derivative_and_its_inner_products(factor: bool, iterations: int) -> None:
    m = mode("float32", iterations)
    run = launch.Chain(1, SEVERAL_TILES, iterations, m, randn(1))
    a, h = problem(run)
    stored_h = operand(run, m.direction_scale * m.y_scale * h)
    f, df, sums = run.pair(operand(run, a * m.y_scale), stored_h, factor=factor)
    a64, h64 = a.double(), h.double()
    value, slope = torch.func.jvp(lambda t: newton_schulz(t, iterations)[int(factor)], (a64,), (h64,))
    assert relative_error(df.double().sum(1) / m.direction_scale, slope) <= 1e-5
    if factor:
        assert relative_error(f.double().sum(1), value) <= 1e-5
    expected = torch.stack([(h64 * value).sum(), (slope * a64).sum()])
    assert relative_error(sums.double().sum((0, 1)) / m.direction_scale, expected) <= 1e-5


@pytest.mark.usefixtures("launch")
@pytest.mark.parametrize("factor", [True, False])
@pytest.mark.parametrize("on_chip", [True, False])
def test_the_largest_derivative_that_can_be_stored(factor: bool, on_chip: bool) -> None:
    """The matrix has one non-zero eigenvalue; the direction is another eigenvector, so slopes are those at zero."""
    m = mode("tf32", 7)
    run = launch.Chain(1, 12, 7, m, randn(1))
    run.on_chip = on_chip
    a, h = torch.zeros(2, 1, run.size, run.size, device=DEVICE)
    a[0, 0, 0] = h[0, 1, 1] = 1
    _, df, _ = run.pair(operand(run, a * m.y_scale), operand(run, h * m.y_scale * m.direction_scale), factor=factor)
    _, slope = torch.func.jvp(lambda t: newton_schulz(t, 7)[int(factor)], (a.double(),), (h.double(),))
    assert relative_error(df.double().sum(1) / m.direction_scale, slope) <= 2e-3
