"""SE and CBAM against their formulas, in float64 (METHODS D3, D4)."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from cases import features, hard_features
from covpool.models._attention import cbam, squeeze_excitation

GATES = [squeeze_excitation, cbam]


def maps(c: int = 8) -> Tensor:
    return features(2, 30, c).mT.reshape(2, c, 5, 6)


def shaken(gate: nn.Module) -> nn.Module:
    """In float64, with no parameter or statistic at a special value."""
    torch.manual_seed(0)
    for tensor in gate.double().state_dict().values():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand_like(tensor) + 0.1)
    return gate.eval()


def perceptron(z: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    return (z @ w1.T + b1).clamp(min=0) @ w2.T + b2


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + (-x).exp())


def matrices(gate: nn.Module) -> tuple[Tensor, ...]:
    """w1, b1, w2, b2 of a gate's two 1x1 convolutions."""
    layers = [m for m in gate.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (1, 1)]
    return tuple(t.squeeze() for layer in layers for t in (layer.weight.flatten(1), layer.bias))


@torch.no_grad()
def test_se() -> None:
    gate, x = shaken(squeeze_excitation(8, reduction=2)), maps() - 0.5
    scale = sigmoid(perceptron(x.mean((2, 3)), *matrices(gate)))
    torch.testing.assert_close(gate(x), x * scale[:, :, None, None])


@torch.no_grad()
def test_cbam() -> None:
    """Released are the maps [max, mean]; timm's order is [mean, max]: a permutation of the weights."""
    gate, x = shaken(cbam(8, reduction=2)), maps() - 0.5
    flat = x.flatten(2)
    channel = perceptron(flat.mean(2), *matrices(gate)) + perceptron(flat.max(2).values, *matrices(gate))
    z = x * sigmoid(channel)[:, :, None, None]
    (conv,) = (m for m in gate.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (7, 7))
    (norm,) = (m for m in gate.modules() if isinstance(m, nn.BatchNorm2d))
    assert conv.bias is None and norm.eps == 1e-5 and norm.momentum == 0.01
    padded = nn.functional.pad(torch.stack([z.mean(1), z.max(1).values], 1), (3, 3, 3, 3))
    score = torch.stack(
        [
            torch.stack([(padded[:, :, i : i + 7, j : j + 7] * conv.weight[0]).sum((1, 2, 3)) for j in range(6)], 1)
            for i in range(5)
        ],
        1,
    )
    score = (score - norm.running_mean) / (norm.running_var + 1e-5).sqrt() * norm.weight + norm.bias
    torch.testing.assert_close(gate(x), z * sigmoid(score)[:, None])


@torch.no_grad()
@pytest.mark.parametrize(("make", "factor"), [(squeeze_excitation, 2), (cbam, 4)])
def test_d3_d4_with_all_weights_zero(make: Callable[..., nn.Module], factor: int) -> None:
    gate, x = make(8, reduction=2).double().eval(), maps()
    for parameter in gate.parameters():
        parameter.zero_()
    torch.testing.assert_close(gate(x), x / factor)


@torch.no_grad()
def test_d3_an_open_gate_is_the_identity() -> None:
    gate, x = shaken(squeeze_excitation(8, reduction=2)), maps()
    gate.fc2.bias.fill_(torch.inf)
    assert torch.equal(gate(x), x)


@torch.no_grad()
def test_d4_both_paths_agree_on_a_map_without_structure() -> None:
    gate = shaken(cbam(8, reduction=2))
    x = maps()[:, :, :1, :1].expand(2, 8, 5, 6)
    scale = sigmoid(2 * perceptron(x[:, :, 0, 0], *matrices(gate)))
    torch.testing.assert_close(gate.channel(x), x * scale[:, :, None, None])


@torch.no_grad()
def test_published_initialisation() -> None:
    torch.manual_seed(0)
    gate, x = cbam(512), torch.rand(2, 512, 5, 5)
    assert [bool(b.any()) for name, b in gate.named_parameters() if name.endswith("bias")] == [False] * 3
    for mode in (True, False):
        torch.testing.assert_close(gate.train(mode)(x), gate.channel(x) / 2)  # the spatial gate starts at 1/2
    gate = squeeze_excitation(512)
    assert not gate.fc1.bias.any() and not gate.fc2.bias.any()
    assert gate.fc1.weight.std().item() == pytest.approx((2 / 512) ** 0.5, rel=0.05)
    assert gate.fc2.weight.std().item() == pytest.approx((2 / 32) ** 0.5, rel=0.05)


@pytest.mark.parametrize("make", GATES)
@pytest.mark.parametrize("channels", [64, 256, 2048])
def test_parameters(make: Callable[..., nn.Module], channels: int) -> None:
    with torch.device("meta"):
        count = sum(p.numel() for p in make(channels).parameters())
    hidden = channels // 16
    assert count == 2 * channels * hidden + hidden + channels + (100 if make is cbam else 0)


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
    with pytest.raises(ValueError, match="`reduction` = 16 leaves nothing of 8 channels"):
        make(8)
    with pytest.raises(ValueError, match="positive integer"):
        make(8, reduction=0)
