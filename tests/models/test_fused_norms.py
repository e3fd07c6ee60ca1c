"""covpool.models._fused_norms: a fused network computes and learns what it did before."""

from collections import Counter
from copy import deepcopy

import pytest
import timm
import torch
import torchvision
from torch import nn

from covpool.models._fused_norms import FusedBatchNorm, fuse_norms


def fused(network: nn.Module) -> Counter[str]:
    """How many norms have which activation."""
    return Counter(module.activation for module in network.modules() if isinstance(module, FusedBatchNorm))


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (lambda: torchvision.models.mobilenet_v2(), {"relu6": 35, "none": 17}),
        (lambda: timm.create_model("tf_efficientnet_lite0"), {"relu6": 33, "none": 16}),
        (lambda: timm.create_model("resnet18"), {"none": 20}),
        (lambda: timm.create_model("efficientnet_b0"), {"silu": 33, "none": 16}),
        (lambda: torchvision.models.vgg11_bn(), {"relu": 8}),
    ],
)
def test_a_fused_network_is_the_same_network(network: object, expected: dict[str, int]) -> None:
    torch.manual_seed(0)
    original = network()  # type: ignore[operator]
    for module in original.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    own = deepcopy(original)
    fuse_norms(own)
    fuse_norms(own)
    assert fused(own) == expected
    assert list(own.state_dict()) == list(original.state_dict())
    x = torch.randn(2, 3, 64, 64)
    found = []
    for each in (original, own):
        torch.manual_seed(1)  # stochastic depth
        each(x).square().sum().backward()
        gradients = [p.grad for p in each.parameters()]
        found.append([*gradients, *each.buffers(), each.eval()(x)])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_norms_that_cannot_be_fused_stay() -> None:
    shared, hooked, watched = nn.BatchNorm2d(4), nn.BatchNorm2d(4), nn.ReLU()
    hooked.register_forward_hook(lambda *_: None)
    watched.register_forward_hook(lambda *_: None)
    network = nn.Sequential(
        nn.Sequential(shared, nn.ReLU()),
        nn.Sequential(shared, nn.Tanh()),
        nn.Sequential(hooked, nn.ReLU()),
        nn.Sequential(nn.BatchNorm2d(4, affine=False), nn.ReLU()),
        nn.Sequential(nn.BatchNorm2d(4, momentum=None), nn.ReLU()),
        nn.Sequential(nn.BatchNorm2d(4, track_running_stats=False), nn.ReLU()),
    )
    before = [type(module) for module in network.modules()]
    fuse_norms(network)
    assert [type(module) for module in network.modules()] == before
    alone = nn.ModuleList([nn.BatchNorm2d(4), nn.ReLU()])  # not a sequence: who knows what comes between
    network = nn.Sequential(nn.BatchNorm2d(4), watched, nn.BatchNorm2d(4), nn.Tanh())
    fuse_norms(alone)
    fuse_norms(network)
    assert fused(alone) == fused(network) - Counter(none=1) == Counter(none=1)
    assert network[1] is watched


def test_an_activation_stays_behind_a_repeated_module() -> None:
    squash = nn.Sigmoid()
    network = nn.Sequential(nn.BatchNorm2d(4), squash, nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), squash, nn.ReLU())
    own, x = deepcopy(network), torch.randn(2, 4, 3, 3)
    fuse_norms(own)
    assert fused(own) == {"none": 2}
    assert torch.equal(own(x), network(x))


def test_a_repeated_activation_is_fused_everywhere() -> None:
    relu = nn.ReLU()
    network = nn.Sequential(nn.BatchNorm2d(4), relu, nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), relu)
    own, x = deepcopy(network), torch.randn(2, 4, 3, 3)
    fuse_norms(own)
    assert fused(own) == {"relu": 2}
    assert torch.equal(own(x), network(x))


def test_a_single_position_is_refused_in_training_as_by_torch() -> None:
    network = nn.Sequential(nn.BatchNorm2d(4), nn.ReLU())
    fuse_norms(network)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        network(torch.randn(1, 4, 1, 1))
    with pytest.raises(ValueError, match="4D"):
        network(torch.randn(2, 4))
