"""covpool.models._sync_norms: a network with shared norms computes what it did before."""

from copy import deepcopy

import pytest
import timm
import torch
import torchvision
from torch import nn

from covpool.models import sync_norms


@pytest.mark.parametrize(
    ("network", "norms"),
    [(lambda: timm.create_model("tf_efficientnet_lite0"), 49), (torchvision.models.mobilenet_v2, 52)],
)
def test_the_network_is_the_same(network: object, norms: int) -> None:
    torch.manual_seed(0)
    original = network().eval()  # type: ignore[operator]
    own = deepcopy(original)
    sync_norms(own)
    assert sum(isinstance(module, nn.SyncBatchNorm) for module in own.modules()) == norms
    assert list(own.state_dict()) == list(original.state_dict())
    assert [name for name, _ in own.named_parameters()] == [name for name, _ in original.named_parameters()]
    x = torch.randn(2, 3, 64, 64)
    assert torch.equal(own(x), original(x))
