"""CBAM against its formula, in float64, and against timm's layer."""

import torch
from timm.layers.cbam import CbamModule
from torch import nn

from blocks.gates import maps, matrices, perceptron, shaken, sigmoid
from covpool.blocks.cbam import ConvolutionalAttention


@torch.no_grad()
def test_the_formula() -> None:
    """The released code orders the maps [max, mean]; [mean, max] here is a permutation of the weights."""
    gate, x = shaken(ConvolutionalAttention(8, reduction=2)), maps() - 0.5
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
def test_weights_of_timm_load_and_give_the_same() -> None:
    gate, x = shaken(ConvolutionalAttention(8, reduction=2)), maps() - 0.5
    theirs = CbamModule(8, rd_channels=4, mlp_bias=True).double().eval()
    theirs.load_state_dict(gate.state_dict())
    torch.testing.assert_close(gate(x), theirs(x), rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_both_paths_agree_on_a_map_without_structure() -> None:
    gate = shaken(ConvolutionalAttention(8, reduction=2))
    x = maps()[:, :, :1, :1].expand(2, 8, 5, 6)
    scale = sigmoid(2 * perceptron(x[:, :, 0, 0], *matrices(gate)))
    torch.testing.assert_close(gate.channel(x), x * scale[:, :, None, None])


@torch.no_grad()
def test_published_initialization() -> None:
    torch.manual_seed(0)
    gate, x = ConvolutionalAttention(512), torch.rand(2, 512, 5, 5)
    assert [bool(b.any()) for name, b in gate.named_parameters() if name.endswith("bias")] == [False] * 3
    for mode in (True, False):
        torch.testing.assert_close(gate.train(mode)(x), gate.channel(x) / 2)  # the spatial gate starts at 1/2
