"""covpool.kernels.power: E-PN and its gradient against torch's operations."""

import pytest
import torch
from torch import Tensor

from covpool.kernels import power, shape
from covpool.kernels.power import BLOCK
from covpool.ops.signed_power import (
    BCNN_EPS,
    CBP_DAMPING,
    LONGEST_VECTOR,
    GradientMode,
    _power_normalized,
    _PowerNormalized,
)
from kernels.conftest import replace
from kernels.oracles import randn

EPS = 1e-12


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    replace(monkeypatch, "SHARES", 2)
    monkeypatch.setattr(power, "BLOCK", 16)


def by_kernels(z: Tensor, mode: GradientMode) -> Tensor:
    y: Tensor = _PowerNormalized.call(z, *power.forward_eager(z, EPS), mode, EPS)
    return y


def vectors() -> Tensor:
    """Two random vectors, one with zeros, one of zeros alone, one that is very short."""
    z = randn(4, 50)
    z[1, ::3], z[2], z[3] = 0, 0, z[3] * 1e-20
    return z


@pytest.mark.parametrize("mode", ["bcnn", "cbp"])
def test_value_and_derivatives(mode: GradientMode) -> None:
    z, g = vectors().requires_grad_(), randn(4, 50, seed=1)
    found = []
    for f in (by_kernels, lambda z, mode: _power_normalized(z, 0.5, mode, EPS)):
        y = f(z, mode)
        found.append([y, *torch.autograd.grad(y, z, g)])
    for ours, torchs in zip(*found, strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-5, atol=1e-6)
    assert torch.equal(by_kernels(z, mode), found[0][0])  # repeated


def test_second_derivative_and_tangent() -> None:
    z, g = randn(2, 50).requires_grad_(), randn(2, 50, seed=1)
    found = []
    for f in (by_kernels, lambda z, mode: _power_normalized(z, 0.5, mode, EPS)):
        (dz,) = torch.autograd.grad(f(z, "bcnn"), z, g, create_graph=True)
        found.append(torch.autograd.grad(dz.square().sum(), z)[0])
    torch.testing.assert_close(*found)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(z.detach(), g)
        ours = torch.autograd.forward_ad.unpack_dual(by_kernels(dual, "bcnn")).tangent
        torchs = torch.autograd.forward_ad.unpack_dual(_power_normalized(dual, 0.5, "bcnn", EPS)).tangent
    torch.testing.assert_close(ours, torchs, rtol=1e-4, atol=1e-6)


def test_gradients_in_forward_mode_and_for_several_upstream_gradients() -> None:
    z, g = randn(2, 50).requires_grad_(), randn(3, 2, 50, seed=1)
    found = []
    for f in (by_kernels, lambda z, mode: _power_normalized(z, 0.5, mode, EPS)):
        y = f(z, "cbp")
        several = torch.autograd.grad(y, z, g, is_grads_batched=True, retain_graph=True)
        with torch.autograd.forward_ad.dual_level():
            make_dual, unpack_dual = torch.autograd.forward_ad.make_dual, torch.autograd.forward_ad.unpack_dual
            upstream = torch.autograd.grad(y, z, make_dual(g[0], g[1]))
            both = torch.autograd.grad(f(make_dual(z, g[2]), "cbp"), z, g[0])
            found.append([*several, *(unpack_dual(dual).tangent for dual in (*upstream, *both))])
    for ours, torchs in zip(*found, strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-4, atol=1e-6)


def test_the_constants_are_those_of_the_operation() -> None:
    assert LONGEST_VECTOR == shape.LARGEST_BATCH * BLOCK
    assert power.SLOPE_EPS.value == BCNN_EPS
    assert power.DAMPING.value == CBP_DAMPING
