"""covpool.kernels.launch: the way of launching changes nothing."""

import math
from dataclasses import replace

import pytest
import torch

from covpool.kernels import launch
from covpool.kernels.precision import mode
from covpool.kernels.shape import Tiling
from kernels.oracles import DEVICE, operand, problem, randn
from ops.oracles import relative_error


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


@pytest.mark.parametrize("precision", ["float32", "tf32"])
@pytest.mark.parametrize("factor", [True, False])
def test_finer_tiles_give_the_same(precision: str, factor: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    m, coarse = mode(precision, 3), 128 if DEVICE == "cuda" else 32
    monkeypatch.setattr(launch, "tiling", lambda *_: Tiling(coarse, 16, 4, 1, coarse, 4))
    found = []
    for tile in (coarse, coarse // 2):
        monkeypatch.setattr(launch, "finer", lambda t, *_, tile=tile: replace(t, tile=tile))
        run = launch.Chain(1, 2 * coarse - 10, 3, m, randn(1))
        a, h = problem(run)
        stored, direction = operand(run, a * m.y_scale), operand(run, h * m.y_scale * m.direction_scale)
        out, gram = run.empty(1), run.empty(1)
        run.value(stored, out, randn(1), run.size, launch.OPERAND)
        run.gram(stored, stored, gram)
        f, df, sums = run.pair(stored, direction, factor=factor)
        assert sums.shape[1] == math.comb(run.size // tile + 1, 2)
        found.append([out, gram, df, sums.sum(1), f if factor else df])
    for one, other in zip(*found, strict=True):
        assert relative_error(other.float(), one.float()) <= (1e-5 if precision == "float32" else 1e-3)
