"""covpool.models._depthwise: a network with replaced convolutions computes and learns what it did before."""

from copy import deepcopy

import pytest
import timm
import torch
import torchvision
from torch import nn

from covpool.models import replace_depthwise
from covpool.models._depthwise import DepthwiseConv2d


@pytest.mark.parametrize(
    ("network", "count"),
    [
        (torchvision.models.mobilenet_v2, 17),
        (lambda: timm.create_model("efficientnet_b0"), 16),
        (timm.models.resnet18, 0),
    ],
)
def test_the_network_is_the_same(network: object, count: int) -> None:
    torch.manual_seed(0)
    original = network()  # type: ignore[operator]
    own = deepcopy(original)
    replace_depthwise(own)
    assert sum(isinstance(module, DepthwiseConv2d) for module in own.modules()) == count
    assert list(own.state_dict()) == list(original.state_dict())
    x = torch.randn(2, 3, 64, 64)
    assert torch.equal(own.eval()(x), original.eval()(x))


def test_other_convolutions_stay() -> None:
    network = nn.Sequential(
        nn.Conv2d(4, 8, 3, groups=4, bias=False),
        nn.Conv2d(4, 4, 3, groups=4),
        nn.Conv2d(4, 4, 3, groups=2, bias=False),
        nn.Conv2d(4, 4, 3, groups=4, bias=False, padding_mode="reflect", padding=1),
        nn.Conv2d(4, 4, 3, groups=4, bias=False, padding="same"),
        nn.Conv2d(1, 1, 3, bias=False),
    )
    replace_depthwise(network)
    assert all(type(module) is nn.Conv2d for module in network)


def test_a_map_without_a_batch_is_one_image() -> None:
    network = nn.Sequential(nn.Conv2d(4, 4, 3, groups=4, bias=False))
    x = torch.randn(4, 6, 6)
    expected = network(x)
    replace_depthwise(network)
    assert torch.equal(network(x), expected)
