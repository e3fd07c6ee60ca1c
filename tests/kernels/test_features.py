"""covpool.kernels.features: moments, centred operands and directions against float64."""

import pytest
import torch
from torch import Tensor

from covpool import ops
from covpool.kernels import adjoint, isqrt
from covpool.kernels.features import SHARE_BLOCK, squared_lengths
from covpool.kernels.launch import Chain
from covpool.kernels.precision import mode
from covpool.kernels.shape import padded
from kernels.oracles import DEVICE, covariance, position_weights, randn
from ops.oracles import relative_error

SHAPES = [(2, 37, 20), (2, 9, 24), (2, 1, 5)]


def scaled(x: Tensor, w: Tensor | None) -> tuple[Tensor, Tensor]:
    """K (b, n, c) and the traces (b,), in float64."""
    x = x.cpu().double()
    weights = torch.full(x.shape[:2], 1 / x.shape[1]).double() if w is None else w.cpu().double()
    k = (x - (weights.unsqueeze(-1) * x).sum(1, keepdim=True)) * weights.sqrt().unsqueeze(-1)
    trace = (k * k).sum((1, 2))
    return k / trace.clamp(min=1e-300).sqrt()[:, None, None], trace


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_lose_nothing_to_a_large_mean(shape: tuple[int, int, int], weighted: bool) -> None:
    x = randn(*shape) + 1000
    w = position_weights(*shape[:2]) if weighted else None
    f = isqrt.Features(x, w, mode("float32", 5))
    weights = 1 / shape[1] if w is None else w.double().unsqueeze(-1)
    mean = f.mean.double().sum(1, keepdim=True)
    assert ((x.double() - mean) * weights).sum(1).abs().max() <= 2e-7  # with one part the rounding error would be 6e-5
    trace = covariance(x.cpu().double(), w).diagonal(dim1=1, dim2=2).sum(-1)
    assert relative_error(f.squares.sum(1).cpu() + 1, trace + 1) <= 1e-6  # + 1: a single position has no variance


@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
@pytest.mark.parametrize("weighted", [False, True])
def test_operands_are_centred_scaled_and_padded_with_zeros(precision: str, weighted: bool) -> None:
    b, n, c = 2, 21, 20
    x = randn(b, n, c) + 3
    w = position_weights(b, n) if weighted else None
    m = mode(precision, 5)
    rows, columns = padded(n, 64), padded(c, 64)
    k, kt, trace, scales = isqrt.Features(x, w, m).operands((rows, columns), (columns, rows), 0.25, True)
    assert torch.equal(kt, k.mT)
    assert not k[:, :, n:].any() and not k[:, :, :, c:].any()
    expected, t = scaled(x, w)
    largest = {"float32": 1e-6, "tf32": 5e-4, "bf16": 8e-3}[precision]
    assert relative_error(k.double().sum(1)[:, :n, :c].cpu() / m.k_scale, expected) <= largest
    assert relative_error(trace.cpu(), t) <= 1e-6
    assert relative_error(scales.cpu(), 0.25 * t.sqrt()) <= 1e-6


@pytest.mark.parametrize(
    ("precision", "n", "weighted"), [("float32", 9, True), ("tf32", 9, False), ("float32", 21, True)]
)
def test_whitened_operands_have_unit_channels(precision: str, n: int, weighted: bool) -> None:
    x, m = randn(2, n, 20) * 10.0 ** torch.linspace(-6, 6, 20, device=DEVICE), mode(precision, 5)
    x[0, :, 3] = 1
    w = position_weights(2, n) if weighted else None
    f, kt = isqrt.Features.whitened(x, w, m, (64, 64))
    assert not kt[:, :, 20:].any() and not kt[:, :, :, n:].any() and not kt[0, :, 3].any()
    variances = covariance(x.cpu().double(), w).diagonal(dim1=1, dim2=2).clone()
    variances[0, 3] = 0  # weights that sum to one in float32 alone leave a little
    assert ((f.squares.cpu() - variances).abs() <= 1e-6 * variances + 1e-30).all()
    expected = scaled(x, w)[0] * scaled(x, w)[1].sqrt()[:, None, None] / variances.clamp(min=1e-30).sqrt().unsqueeze(1)
    expected[0, :, 3] = 0
    found = kt.double().sum(1)[:, :20, :n].cpu().mT / m.k_scale
    assert relative_error(found, expected) <= {"float32": 1e-6, "tf32": 5e-4}[precision]


def test_only_the_requested_operand_is_made_and_scales_are_constant_without_compensation() -> None:
    f = isqrt.Features(randn(2, 9, 20), None, mode("tf32", 5))
    k, kt, _, scales = f.operands(None, (64, 64), 0.25, False)
    assert k.numel() == 0 and kt.isfinite().all()
    assert scales.tolist() == [0.25, 0.25]


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1.0, 1e30])
def test_squared_lengths_neither_vanish_nor_overflow(scale: float) -> None:
    g = randn(3, 17 * SHARE_BLOCK + 5) * scale  # two rounds per share
    squares = squared_lengths(g).sum(1)
    assert relative_error(squares, g.double().square().sum(1)) <= 1e-6 if scale else not squares.any()


@pytest.mark.parametrize("c", [1, 20])
def test_direction_is_the_symmetric_matrix_of_unit_norm(c: int) -> None:
    m = mode("float32", 5)
    g = randn(2, c * (c + 1) // 2)
    g[1] = 0
    norms = torch.linalg.vector_norm(g, dim=1)
    run = Chain(2, c, 5, m, g)
    size = padded(c, run.tiling.channel_tile)
    s = g.new_empty(2, m.parts, size, size, dtype=m.storage)
    found = adjoint.triangle_direction(run, g, s, c, m.direction_scale)
    assert not run.counters.any()
    matrix = ops.unvech(g[:1].double())
    matrix = (matrix + matrix.diagonal(dim1=1, dim2=2).diag_embed()) / 2
    value = s.double().sum(1) / m.direction_scale
    assert relative_error(found, norms) <= 1e-6
    assert torch.equal(s, s.mT)
    assert relative_error(value[0, :c, :c], matrix[0] / norms[0].double()) <= 1e-6
    assert not s[1].any() and not s[:, :, c:].any()
