"""covpool.kernels.matrices: operands from matrices of several diagonal blocks that do not fill their last tile."""

import math

import pytest
import torch
from torch import Tensor

from covpool.kernels import matrices
from covpool.kernels.features import TINY
from kernels.oracles import DEVICE, randn
from ops.oracles import relative_error

C, T, SIZE = 300, 64, 320
ITEMS = math.comb(SIZE // T + 1, 2)
TILES = {"SIZE": SIZE, "PARTS": 2, "T": T}


def operand(b: int) -> Tensor:
    return torch.full((b, 2, SIZE, SIZE), torch.nan, dtype=torch.float16, device=DEVICE)


def padded(value: Tensor) -> Tensor:
    return torch.nn.functional.pad(value, (0, SIZE - C, 0, SIZE - C))


@pytest.mark.parametrize("compensated", [True, False])
def test_normalized_operand_trace_and_scale(compensated: bool) -> None:
    s = randn(2, C, C)
    s[0] += 5 * torch.eye(C, device=DEVICE)
    s[1].diagonal().zero_()
    a, traces, scales = operand(2), s.new_empty(2), s.new_empty(2)
    counters = s.new_empty(2, dtype=torch.int32)
    matrices.normalize_kernel[(ITEMS, 2)](
        s, a, traces, scales, counters, C, *s.stride(), TINY, 256.0, 3.0, COMPENSATED=compensated, **TILES
    )
    trace = s[0].diagonal().sum()
    assert traces.tolist() == [pytest.approx(trace.item(), rel=1e-5), 0]
    assert scales.tolist() == pytest.approx([3 * trace.sqrt().item() if compensated else 3, 0 if compensated else 3])
    assert relative_error(a[0].float().sum(0), padded(256 * (s[0] + s[0].mT) / 2 / trace)) <= 1e-6
    assert not a[1].any()  # its trace is zero
    assert not counters.any()


def test_direction_and_norm() -> None:
    g = randn(2, C, C) * torch.tensor([1e-30, 1e30], device=DEVICE)[:, None, None]
    squares, norms, h = g.new_empty(2, ITEMS, dtype=torch.float64), g.new_empty(2), operand(2)
    matrices.squares_of_tiles_kernel[(ITEMS, 2)](g, squares, C, *g.stride(), ITEMS, SIZE=SIZE, T=T)
    power = 1 << (ITEMS - 1).bit_length()
    matrices.matrix_direction_kernel[(ITEMS, 2)](
        g, squares, norms, h, C, *g.stride(), ITEMS, 64.0, ITEMS=power, **TILES
    )
    symmetric = (g.double() + g.double().mT) / 2
    norm = torch.linalg.matrix_norm(symmetric)
    assert relative_error(norms, norm) <= 1e-6
    assert relative_error(h.double().sum(1), padded(64 * symmetric / norm[:, None, None])) <= 1e-5


@pytest.mark.parametrize("compensated", [True, False])
def test_gradient(compensated: bool) -> None:
    slope = randn(2, SIZE, SIZE)
    slope = slope + slope.mT
    stored = torch.stack([slope.half(), (slope - slope.half().float()).half()], 1)
    sums, norms = randn(2, ITEMS, 2, seed=1), torch.tensor([2.0, 3.0], device=DEVICE)
    traces, out = torch.tensor([4.0, 0.0], device=DEVICE), slope.new_empty(2, C, C)
    power = 1 << (ITEMS - 1).bit_length()
    matrices.matrix_gradient_kernel[(ITEMS, 2)](
        stored, sums, norms, traces, out, C, 0.125, 0.5, TINY, ITEMS, COMPENSATED=compensated, ITEMS=power, **TILES
    )
    value, inner = sums[0].sum(0).tolist()
    expected = slope[0, :C, :C] + (value / 2 - inner) * torch.eye(C, device=DEVICE)
    assert relative_error(out[0], expected * 2 * 0.125 / (2 if compensated else 4)) <= 1e-6
    assert not out[1].any()
