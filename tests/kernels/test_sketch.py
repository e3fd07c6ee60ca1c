"""covpool.kernels.sketch: pooled spectra and their gradient against torch's operations in float64."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from covpool.kernels import sketch
from covpool.ops import draw_sketch
from covpool.ops._pooled_spectra import _by_torch, _SpectraByKernels
from kernels.conftest import replace
from kernels.oracles import DEVICE, memory_with_a_hole, position_weights, randn
from ops.oracles import relative_error

CHANNELS = 7


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("BUCKETS", 16), ("FREQUENCIES", 4), ("CHANNELS", 4)):
        replace(monkeypatch, name, value)


def drawn(order: int, size: int) -> tuple[Tensor, Tensor]:
    """Buckets, several channels to one of them, and real numbers in place of signs."""
    hashes, signs = draw_sketch(order, CHANNELS, size)
    hashes[:, 3] = hashes[:, 0]
    return hashes.to(DEVICE), (signs * torch.linspace(0.5, 2, CHANNELS)).to(DEVICE)


def by_kernels(x: Tensor, w: Tensor | None, hashes: Tensor, signs: Tensor, size: int) -> Tensor:
    pooled, z = sketch.forward(x.detach(), w, hashes, signs, size)
    result: Tensor = _SpectraByKernels.apply(x, w, hashes, signs, pooled, z, size)
    return result


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize(("n", "size"), [(1, 20), (6, 33), (5, 1), (4, 2)])
@pytest.mark.parametrize("weighted", [False, True])
def test_value_and_gradient(order: int, n: int, size: int, weighted: bool) -> None:
    x = randn(2, CHANNELS, n).mT.requires_grad_()  # strided
    w = position_weights(2, n) if weighted else None
    hashes, signs = drawn(order, size)
    z = by_kernels(x, w, hashes, signs, size)
    exact = x.detach().double().requires_grad_()
    expected = _by_torch(exact, None if w is None else w.double(), hashes, signs.double(), size)
    assert z.shape == expected.shape and relative_error(torch.view_as_real(z), torch.view_as_real(expected)) <= 1e-6
    g = torch.complex(randn(*z.shape, seed=1), randn(*z.shape, seed=2))
    (dx,) = torch.autograd.grad(z, x, g)
    (expected_dx,) = torch.autograd.grad(expected, exact, g.to(expected.dtype))
    assert relative_error(dx, expected_dx) <= 2e-6


def test_positions_of_very_different_lengths() -> None:
    """Two positions share a transform, so the error is that of the longer one."""
    x = (randn(2, 6, CHANNELS) * torch.logspace(-3, 3, 6, device=DEVICE)[:, None]).requires_grad_()
    hashes, signs = drawn(3, 20)
    z = by_kernels(x, None, hashes, signs, 20)
    expected = _by_torch(x.detach().double(), None, hashes, signs.double(), 20)
    assert relative_error(torch.view_as_real(z), torch.view_as_real(expected)) <= 1e-6


def test_a_position_of_weight_zero_counts_for_nothing() -> None:
    """It shares a transform with a position that counts, and is much longer."""
    x, w, g = randn(2, 6, CHANNELS), position_weights(2, 6), randn(2, 3, 11, 2, seed=1)
    hashes, signs = drawn(3, 20)
    found = []
    for length in (1, 1e8):
        x[w == 0] = length
        z, transforms = sketch.forward(x, w, hashes, signs, 20)
        found.append((z, sketch.backward(x, w, transforms, torch.view_as_complex(g), hashes, signs, 20)))
        assert not found[-1][1][w == 0].any()
    for same, expected in zip(*found, strict=True):
        assert torch.equal(same, expected)


def test_a_bucket_that_does_not_exist_is_left_out() -> None:
    x, g = randn(1, 2, CHANNELS), torch.view_as_complex(randn(1, 1, 11, 2, seed=1))
    hashes, signs = drawn(1, 20)
    without = signs.clone()
    hashes[0, 1], hashes[0, 5], without[0, 1], without[0, 5] = -1, 20, 0, 0
    z, transforms = sketch.forward(x, None, hashes, signs, 20)
    dx = sketch.backward(x, None, transforms, g, hashes, signs, 20)
    expected, transforms = sketch.forward(x, None, hashes.clamp(0, 19), without, 20)
    assert torch.equal(z, expected)
    assert torch.equal(dx, sketch.backward(x, None, transforms, g, hashes.clamp(0, 19), without, 20))


def test_a_fault_stays_in_its_image() -> None:
    x = randn(3, 5, CHANNELS)
    hashes, signs = drawn(2, 20)
    sound, _ = sketch.forward(x, None, hashes, signs, 20)
    x[1, 4, 2] = torch.nan
    z, _ = sketch.forward(x, None, hashes, signs, 20)
    assert z[1].isnan().all() and torch.equal(z[::2], sound[::2])


@pytest.mark.skipif(DEVICE == "cuda", reason="the memory is a file")
def test_offsets_between_sketches_exceed_the_range_of_int32(tmp_path: Path) -> None:
    """The stride from sketch to sketch is within the range, and two or three of them are not."""
    size, stride, pair = 4, 2**30, 2 * 4
    far, near = memory_with_a_hole(tmp_path, 3 * stride + pair), torch.zeros(4 * pair)
    x, w, g = randn(1, 2, CHANNELS), torch.ones(1), randn(1, 4, size // 2 + 1, 2, seed=1)
    hashes, signs = drawn(4, size)
    buckets, order = hashes.sort(dim=-1, stable=True)
    starts = torch.searchsorted(buckets, torch.arange(size + 1).expand(4, -1).contiguous(), out_int32=True)
    constants = {"SKETCHES": 4, "WEIGHTED": False, "FREQUENCIES": 4}
    found = []
    for placed, step in ((far, stride), (near, pair)):
        sketch.place_kernel[(1, 4)](
            x, w, starts, order, signs, placed, 2, size, CHANNELS, *x.stride(), step, 1, WEIGHTED=False, BUCKETS=size
        )
        sketches, pooled = [placed[i * step :][:pair] for i in range(4)], torch.empty_like(g)
        found += [s.clone() for s in sketches]
        sketch.pool_kernel[(1, 1)](placed, w, pooled, 2, size, step, 0.5, **constants)
        sketch.pool_gradient_kernel[(1, 1)](placed, w, g, placed, 2, size, step, 0.5, **constants)
        found += [pooled, *sketches]
    for ours, expected in zip(found[:9], found[9:], strict=True):
        assert torch.equal(ours, expected) and expected.any()


def test_second_derivative() -> None:
    x, g = randn(2, 5, CHANNELS).requires_grad_(), randn(2, 5, CHANNELS, seed=1)
    hashes, signs = drawn(3, 20)
    found = []
    for f in (by_kernels, _by_torch):
        (dx,) = torch.autograd.grad(f(x, None, hashes, signs, 20).abs().square().sum(), x, create_graph=True)
        found.append(torch.autograd.grad((dx * g).sum(), x)[0])
    assert relative_error(*found) <= 1e-5


def test_gradients_for_several_upstream_gradients_at_once_and_in_forward_mode() -> None:
    x = randn(2, 5, CHANNELS).requires_grad_()
    hashes, signs = drawn(3, 20)
    z = torch.view_as_real(by_kernels(x, None, hashes, signs, 20))
    g = randn(4, *z.shape, seed=1)
    (together,) = torch.autograd.grad(z, x, g, is_grads_batched=True, retain_graph=True)
    alone = torch.stack([torch.autograd.grad(z, x, one, retain_graph=True)[0] for one in g])
    assert relative_error(together, alone) <= 1e-5
    with forward_ad.dual_level():
        (dual,) = torch.autograd.grad(z, x, forward_ad.make_dual(g[0], g[1]))
        assert relative_error(forward_ad.unpack_dual(dual).tangent, alone[1]) <= 1e-5
