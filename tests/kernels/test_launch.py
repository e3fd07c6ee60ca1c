"""covpool.kernels.launch: the result does not depend on which program computes a tile, nor on the size of tiles."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from covpool.kernels import launch
from covpool.kernels.gpu import shared_memory
from covpool.kernels.precision import mode
from covpool.kernels.shape import Team, Tiling, tiling
from covpool.kernels.tiles import INTERPRETED
from kernels.oracles import DEVICE, combinations, operand, problem, randn
from ops.oracles import relative_error

TILE = tiling(1000, 1, shared_memory(torch.device(DEVICE))).tile if DEVICE == "cuda" else 16
# Members and number of teams, for three matrices. Triton's interpreter runs programs one after the other, so there the
# members of a team cannot wait for each other.
ALONE = [(1, 1), (1, 2), (1, 3)]
TOGETHER = [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3)]
TEAMS = ALONE[:2] if INTERPRETED.value else ALONE + TOGETHER
PRECISIONS = ("float32", "tf32")


def everything(run: launch.Chain, factor: bool) -> list[Tensor]:
    """Return all results of the chain for one problem."""
    a, h = problem(run)
    m = run.mode
    stored, direction = operand(run, a * m.y_scale), operand(run, h * m.y_scale * m.direction_scale)
    out, gram = run.empty(run.b), run.empty(run.b)
    run.gram(stored, stored, gram)  # clears the counters
    run.value(stored, out, randn(run.b), run.size, launch.OPERAND)
    run.gram(stored, stored, gram)
    f, df, sums = run.pair(stored, direction, factor=factor)
    return [out, gram, df, sums.sum(1), f if factor else df]


@pytest.mark.parametrize(
    ("precision", "iterations"), combinations(PRECISIONS, (3, 4, 5), few=[("float32", 3), ("tf32", 4)])
)
def test_every_team_gives_the_same_bits(precision: str, iterations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for members, teams in TEAMS:
        monkeypatch.setattr(launch, "team", lambda t, *_, by=(members, teams): Team(t, *by))
        run = launch.Chain(3, 2 * TILE - 5, iterations, mode(precision, iterations), randn(1))
        assert run.items == 3
        found.append(everything(run, factor=False))
    for one in found:
        for expected, value in zip(found[0], one, strict=True):
            assert torch.equal(value, expected)
            assert value.isfinite().all()


@pytest.mark.parametrize(
    ("precision", "factor"), combinations(PRECISIONS, (True, False), few=[("float32", True), ("tf32", False)])
)
def test_finer_tiles_give_the_same(precision: str, factor: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    coarse = 2 * TILE if DEVICE == "cpu" else TILE
    monkeypatch.setattr(launch, "tiling", lambda *_: Tiling(coarse, 16, 4, 1, coarse, 4))
    found = []
    for tile in (coarse, coarse // 2):
        monkeypatch.setattr(launch, "finer", lambda t, *_, tile=tile: replace(t, tile=tile))
        monkeypatch.setattr(launch, "team", lambda t, *_, tile=tile: Team(replace(t, tile=tile), 1, 1))
        run = launch.Chain(1, 2 * coarse - 10, 3, mode(precision, 3), randn(1))
        found.append(everything(run, factor))
    for one, other in zip(*found, strict=True):
        assert relative_error(other.float(), one.float()) <= (1e-5 if precision == "float32" else 1e-3)


def test_the_sums_are_those_of_the_tiles_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "team", lambda t, *_: Team(replace(t, tile=t.tile // 2), 1, 1))
    monkeypatch.setattr(launch, "tiling", lambda *_: Tiling(2 * TILE, 16, 4, 1, 2 * TILE, 4))
    run = launch.Chain(1, 2 * TILE, 3, mode("float32", 3), randn(1))
    a, h = problem(run)
    _, _, sums = run.pair(operand(run, a), operand(run, h), factor=False)
    assert sums.shape[1] == math.comb(2 + 1, 2)
