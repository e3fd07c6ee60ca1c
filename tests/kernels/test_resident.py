"""covpool.kernels.resident: the chain of a matrix that is one tile, on the chip."""

import pytest
import torch

from covpool.kernels import launch
from covpool.kernels.precision import mode
from kernels.oracles import DEVICE, LARGEST_ERROR, newton_schulz, operand, problem, randn
from ops.oracles import relative_error

ORDERS_ON_CHIP = (12, 60, 128) if DEVICE == "cuda" else (12,)  # interpreted, a tile is small


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
@pytest.mark.parametrize("factor", [True, False])
@pytest.mark.parametrize("iterations", [3, 4, 5, 6, 7])
def test_on_the_chip(precision: str, factor: bool, iterations: int) -> None:
    m = mode(precision, iterations)
    harder = factor or iterations == 7  # 16-bit rounding grows in the factor and with every iteration
    largest = LARGEST_ERROR[precision] * (2 if harder else 1)
    for order in ORDERS_ON_CHIP:
        run = launch.Chain(3, order, iterations, m, randn(1))
        assert run.on_chip
        a, h = problem(run)
        stored, stored_h = operand(run, a * m.y_scale), operand(run, m.direction_scale * m.y_scale * h)
        f, df, sums = run.pair(stored, stored_h, factor=factor)
        value, slope = torch.func.jvp(lambda t: newton_schulz(t, iterations)[int(factor)], (a.double(),), (h.double(),))
        assert relative_error(df.double().sum(1) / m.direction_scale, slope) <= largest
        for number, (x, z) in enumerate(((h, value), (slope, a))):  # <x, z> may be far smaller than |x| |z|
            error = sums[:, 0, number] / m.direction_scale - (x * z).sum((1, 2))
            assert (error.abs() <= largest * x.norm(dim=(1, 2)) * z.norm(dim=(1, 2))).all()
        out = run.empty(3) if factor else a.new_empty(3, run.size, run.size)
        scales = torch.full((3,), 1 / m.y_scale, device=DEVICE)
        run.value(stored, out, scales, run.size, launch.OPERAND if factor else launch.MATRIX)
        values = out[:, 0] if factor else out
        assert relative_error(values.double(), value) <= largest
        assert not factor or torch.equal(f[:, 0], values)


def test_on_the_chip_as_through_memory() -> None:
    m = mode("tf32", 5)
    run = launch.Chain(2, 12, 5, m, randn(1))
    a, _ = problem(run)
    roots = []
    for run.on_chip in (True, False):
        out = randn(1).new_empty(2, 12 * 13 // 2)
        run.value(operand(run, a * m.y_scale), out, randn(2), 12, launch.TRIANGLE)
        roots.append(out)
    assert relative_error(*roots) <= 1e-3
