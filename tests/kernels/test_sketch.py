"""covpool.kernels.sketch: pooled spectra and their gradient against torch's operations in float64."""

import pytest
import torch
from torch import Tensor

from covpool.kernels import sketch
from covpool.ops import draw_sketch
from covpool.ops._pooled_spectra import _by_torch, _SpectraByKernels
from kernels.conftest import replace
from kernels.oracles import DEVICE, position_weights, randn
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


def test_a_fault_stays_in_its_image() -> None:
    x = randn(3, 5, CHANNELS)
    hashes, signs = drawn(2, 20)
    sound, _ = sketch.forward(x, None, hashes, signs, 20)
    x[1, 4, 2] = torch.nan
    z, _ = sketch.forward(x, None, hashes, signs, 20)
    assert z[1].isnan().all() and torch.equal(z[::2], sound[::2])


def test_second_derivative() -> None:
    x, g = randn(2, 5, CHANNELS).requires_grad_(), randn(2, 5, CHANNELS, seed=1)
    hashes, signs = drawn(3, 20)
    found = []
    for f in (by_kernels, _by_torch):
        (dx,) = torch.autograd.grad(f(x, None, hashes, signs, 20).abs().square().sum(), x, create_graph=True)
        found.append(torch.autograd.grad((dx * g).sum(), x)[0])
    assert relative_error(*found) <= 1e-5


def test_gradients_for_several_upstream_gradients_at_once() -> None:
    x = randn(2, 5, CHANNELS).requires_grad_()
    hashes, signs = drawn(3, 20)
    z = torch.view_as_real(by_kernels(x, None, hashes, signs, 20))
    g = randn(4, *z.shape, seed=1)
    (together,) = torch.autograd.grad(z, x, g, is_grads_batched=True, retain_graph=True)
    alone = torch.stack([torch.autograd.grad(z, x, one, retain_graph=True)[0] for one in g])
    assert relative_error(together, alone) <= 1e-5
