import copy
import pickle
from collections.abc import Callable

import pytest
import timm
import timm.models.resnet
import torch
import torchvision.models.resnet
from torch import nn

from covpool.models._residual import ResidualBlock, gate_tensors, take_over

TIMM, TORCHVISION = timm.models.resnet, torchvision.models.resnet
BLOCKS: dict[str, Callable[[], nn.Module]] = {
    "torchvision basic": lambda: TORCHVISION.BasicBlock(8, 8),
    "torchvision basic, strided": lambda: TORCHVISION.BasicBlock(4, 8, stride=2, downsample=shortcut(4, 8)),
    "torchvision bottleneck": lambda: TORCHVISION.Bottleneck(32, 8),
    "torchvision bottleneck, grouped": lambda: TORCHVISION.Bottleneck(
        4, 8, stride=2, downsample=shortcut(4, 32), groups=2
    ),
    "timm basic": lambda: TIMM.BasicBlock(8, 8),
    "timm bottleneck, strided": lambda: TIMM.Bottleneck(4, 8, stride=2, downsample=shortcut(4, 32)),
    "timm bottleneck, with everything": lambda: TIMM.Bottleneck(
        *(4, 8, 2, shortcut(4, 32)),
        attn_layer="se",
        aa_layer=timm.layers.BlurPool2d,
        drop_block=lambda: timm.layers.DropBlock2d(0.1, block_size=3),
        drop_path=timm.layers.DropPath(0.3),
        act_layer=nn.SiLU,
    ),
}


def shortcut(c: int, d: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(c, d, 1, stride=2, bias=False), nn.BatchNorm2d(d))


def shaken(model: nn.Module) -> nn.Module:
    for tensor in model.state_dict().values():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand_like(tensor) + 0.1)
    return model


def run(block: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)  # seeds drop path and drop block
    x = x.clone().requires_grad_()
    y = block(x)
    return y, *torch.autograd.grad(y.square().sum(), (x, *block.parameters()))


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("training", [False, True])
def test_a_block_taken_over_computes_the_same_bit_for_bit(name: str, training: bool) -> None:
    torch.manual_seed(0)
    block = shaken(BLOCKS[name]()).train(training)
    ours = ResidualBlock(copy.deepcopy(block))
    assert ours.training == training
    assert list(ours.state_dict()) == list(block.state_dict())
    x = torch.randn(2, block.conv1.in_channels, 8, 8)
    assert all(torch.equal(a, b) for a, b in zip(run(ours, x), run(block, x), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(ours.buffers(), block.buffers(), strict=True))
    assert ours.channels == ours(x).shape[1]


@pytest.mark.parametrize("name", ["torchvision basic", "timm bottleneck, with everything"])
def test_a_gate_comes_last_but_before_drop_path(name: str) -> None:
    block = ResidualBlock(BLOCKS[name]().double().eval())
    block.add_gate("doubled", nn.Conv2d(block.channels, 1, 1))
    expected = ("se", "doubled", "drop_path") if "timm" in name else ("bn2", "doubled")
    assert block.branch[-len(expected) :] == expected
    assert block.doubled.weight.dtype == torch.float64 and not block.doubled.training
    with pytest.raises(ValueError, match="has 'doubled' in its blocks already"):
        block.add_gate("doubled", nn.Identity())
    holder = nn.Sequential(nn.Sequential(block))
    assert list(gate_tensors(holder)) == ["0.0.doubled.weight", "0.0.doubled.bias"]


class Difference(nn.Module):
    def forward(self, shortcut: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return shortcut - residual


def test_sum_and_activation_are_replaced() -> None:
    block = ResidualBlock(shaken(BLOCKS["torchvision basic"]())).eval()
    x = torch.randn(2, 8, 4, 4)
    branch = x
    for name in block.branch:
        branch = getattr(block, name)(branch)
    block.set_merge(Difference())
    torch.testing.assert_close(block(x), (x - branch).clamp(min=0))
    block.set_activation(nn.Tanh())
    torch.testing.assert_close(block(x), torch.tanh(x - branch))
    with pytest.raises(ValueError, match="already replaced by Difference"):
        block.set_merge(Difference())


def test_copies() -> None:
    block = ResidualBlock(BLOCKS["timm bottleneck, strided"]()).eval()
    block.set_merge(Difference())
    x = torch.randn(1, 4, 4, 4)
    for other in (copy.deepcopy(block), pickle.loads(pickle.dumps(block))):
        assert torch.equal(other(x), block(x))
        assert other.conv1 is not block.conv1


def test_every_block_of_a_network_is_taken_over_once() -> None:
    with torch.device("meta"):
        model = torchvision.models.resnet50()
    keys = list(model.state_dict())
    blocks = take_over(model)
    assert len(blocks) == 3 + 4 + 6 + 3
    assert [b.channels for b in blocks] == [256] * 3 + [512] * 4 + [1024] * 6 + [2048] * 3
    assert take_over(model) == blocks
    assert list(model.state_dict()) == keys and not list(gate_tensors(model))


class OwnBlock(TORCHVISION.BasicBlock):
    """A subclass may have another forward, so it is not recognized."""


@pytest.mark.parametrize(
    "make",
    [
        lambda: timm.create_model("res2net50_26w_4s"),
        lambda: torchvision.models.densenet121(),
        lambda: nn.Sequential(OwnBlock(8, 8)),
    ],
)
def test_other_blocks_are_refused(make: Callable[[], nn.Module]) -> None:
    with (
        torch.device("meta"),
        pytest.raises(ValueError, match=r"no residual block of a supported kind: BasicBlock or Bottleneck"),
    ):
        take_over(make())
