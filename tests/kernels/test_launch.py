"""covpool.kernels.launch: the way of launching changes nothing."""

import pytest
import torch

from covpool.kernels import launch
from covpool.kernels.precision import mode
from kernels.oracles import operand, problem, randn


@pytest.mark.parametrize("precision", ["float32", "tf32"])
@pytest.mark.parametrize("iterations", [3, 4, 5])
def test_both_ways_of_launching_give_the_same_bits(
    precision: str, iterations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    m = mode(precision, iterations)
    run = launch.Chain(1, 20, iterations, m, randn(1))
    run.on_chip = False
    a, h = problem(run)
    stored, direction = operand(run, a * m.y_scale), operand(run, h * m.y_scale * m.direction_scale)
    roots, slopes = [], []
    for program_per_matrix in (True, False):
        monkeypatch.setattr(launch, "one_program_per_matrix", lambda b, answer=program_per_matrix: answer)
        out = randn(1).new_empty(1, 20, 20)
        run.value(stored, out, randn(1), 20, launch.MATRIX)
        roots.append(out)
        slopes.append(run.pair(stored, direction, factor=False)[1])
    for one, other in (roots, slopes):
        assert torch.equal(one, other)
        assert one.isfinite().all()
