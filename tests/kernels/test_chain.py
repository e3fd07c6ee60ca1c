"""covpool.kernels.chain: the factor and the root with their derivatives, on one given matrix."""

import pytest
import torch

from covpool.kernels import launch
from covpool.kernels.precision import mode
from kernels.oracles import newton_schulz, operand, problem, randn
from ops.oracles import relative_error


@pytest.mark.usefixtures("launch")
@pytest.mark.parametrize("iterations", [3, 4, 5, 6, 7])
def test_the_factor(iterations: int) -> None:
    run = launch.Chain(1, 20, iterations, mode("float32", iterations), randn(1))
    a, _ = problem(run)
    out = run.empty(1)
    run.value(operand(run, a * run.mode.y_scale), out, randn(1), run.size, launch.OPERAND)
    _, p = newton_schulz(a.double(), iterations)
    assert relative_error(out.double().sum(1), p) <= 1e-5


@pytest.mark.usefixtures("launch")
@pytest.mark.parametrize("factor", [True, False])
@pytest.mark.parametrize("iterations", [3, 4, 5, 6, 7])
def test_the_derivative_and_its_inner_products(factor: bool, iterations: int) -> None:
    m = mode("float32", iterations)
    run = launch.Chain(1, 20, iterations, m, randn(1))
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
