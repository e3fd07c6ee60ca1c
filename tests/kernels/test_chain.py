"""covpool.kernels.chain: the factor of one given matrix; the root is tested through `sqrtm`."""

import pytest

from covpool.kernels import launch
from covpool.kernels.precision import mode
from kernels.oracles import SEVERAL_TILES, newton_schulz, operand, problem, randn
from ops.oracles import relative_error


@pytest.mark.usefixtures("launch")
@pytest.mark.parametrize("iterations", [3, 4, 5, 6, 7])
def test_the_factor(iterations: int) -> None:
    run = launch.Chain(1, SEVERAL_TILES, iterations, mode("float32", iterations), randn(1))
    a, _ = problem(run)
    out = run.empty(1)
    run.value(operand(run, a * run.mode.y_scale), out, randn(1), run.size, launch.OPERAND)
    _, p = newton_schulz(a.double(), iterations)
    assert relative_error(out.double().sum(1), p) <= 1e-5
