"""SE against its formula, in float64, and against timm's layer; CBAM shares the checks that hold for both."""

from collections.abc import Callable

import pytest
import torch
from timm.layers import SqueezeExcite
from torch import nn

from blocks.gates import maps, matrices, perceptron, shaken, sigmoid
from cases import hard_features
from covpool.blocks.cbam import ConvolutionalAttention
from covpool.blocks.se import SqueezeExcitation

GATES = [SqueezeExcitation, ConvolutionalAttention]


@torch.no_grad()
def test_the_formula() -> None:
    gate, x = shaken(SqueezeExcitation(8, reduction=2)), maps() - 0.5
    scale = sigmoid(perceptron(x.mean((2, 3)), *matrices(gate)))
    torch.testing.assert_close(gate(x), x * scale[:, :, None, None])


@torch.no_grad()
def test_weights_of_timm_load_and_give_the_same() -> None:
    gate, theirs, x = shaken(SqueezeExcitation(8, reduction=2)), SqueezeExcite(8, rd_channels=4).double(), maps() - 0.5
    theirs.load_state_dict(gate.state_dict())
    assert torch.equal(gate(x), theirs(x))


@torch.no_grad()
@pytest.mark.parametrize(("make", "factor"), [(SqueezeExcitation, 2), (ConvolutionalAttention, 4)])
def test_all_weights_zero(make: Callable[..., nn.Module], factor: int) -> None:
    gate, x = make(8, reduction=2).double().eval(), maps()
    for parameter in gate.parameters():
        parameter.zero_()
    torch.testing.assert_close(gate(x), x / factor)


@torch.no_grad()
def test_an_open_gate_is_the_identity() -> None:
    gate, x = shaken(SqueezeExcitation(8, reduction=2)), maps()
    gate.fc2.bias.fill_(torch.inf)
    assert torch.equal(gate(x), x)


def test_published_initialization() -> None:
    torch.manual_seed(0)
    gate = SqueezeExcitation(512)
    assert not gate.fc1.bias.any() and not gate.fc2.bias.any()
    assert gate.fc1.weight.std().item() == pytest.approx((2 / 512) ** 0.5, rel=0.05)
    assert gate.fc2.weight.std().item() == pytest.approx((2 / 32) ** 0.5, rel=0.05)


@pytest.mark.parametrize("make", GATES)
@pytest.mark.parametrize("channels", [64, 256, 2048])
def test_number_of_parameters(make: Callable[..., nn.Module], channels: int) -> None:
    with torch.device("meta"):
        count = sum(p.numel() for p in make(channels).parameters())
    hidden = channels // 16
    assert count == 2 * channels * hidden + hidden + channels + (100 if make is ConvolutionalAttention else 0)


@pytest.mark.parametrize("make", GATES)
@pytest.mark.parametrize("name", [n for n in hard_features() if n not in ("single_position", "few_positions")])
def test_finite_on_hard_inputs(make: Callable[..., nn.Module], name: str) -> None:
    gate = make(16)
    x = hard_features()[name].mT.reshape(2, 16, 4, 4).requires_grad_()
    y = gate(x)
    gradients = torch.autograd.grad(y.sum(), (x, *gate.parameters()))
    assert y.isfinite().all() and all(g.isfinite().all() for g in gradients)


@pytest.mark.parametrize("make", GATES)
def test_wrong_reductions(make: Callable[..., nn.Module]) -> None:
    with pytest.raises(ValueError, match="`reduction` must be at most the number of channels, 8; got 16"):
        make(8)
    with pytest.raises(ValueError, match="positive integer"):
        make(8, reduction=0)
