"""covpool.kernels.launch: the way of launching changes nothing."""

import pytest
import torch

from covpool.kernels import launch
from covpool.kernels.precision import mode
from kernels.oracles import operand, problem, randn, start


@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_both_ways_of_launching_give_the_same_bits(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    m = mode(precision, 3)
    run = launch.Chain(1, 20, 3, m, randn(1))
    a, _ = problem(run)
    roots = []
    for program_per_matrix in (True, False):
        monkeypatch.setattr(launch, "one_program_per_matrix", lambda b, answer=program_per_matrix: answer)
        workspace, out = run.empty(1, 4), randn(1).new_empty(1, 20, 20)
        workspace[:, 1] = operand(run, start(run, a))
        run.value(operand(run, a * m.y_scale), workspace, out, randn(1), 20, launch.MATRIX)
        roots.append(out)
    assert torch.equal(*roots)
    assert roots[0].isfinite().all()
