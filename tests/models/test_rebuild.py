import json
from dataclasses import asdict

import pytest
import torch
from torch import nn

import covpool
from covpool.models import AttachedArchitecture
from covpool.models._rebuild import rebuild
from models.test_dense_forms import InceptionReduction
from models.test_last_stride import stem


@pytest.mark.parametrize(
    "network",
    [
        lambda: covpool.attach("test_resnet", "isqrt", 7, reduce_to=(24, 8), iterations=3, normalize=("epn", "bn")),
        lambda: covpool.attach("torchvision/mobilenet_v3_small", "avg", 4, keep_last_stride=True, head_layers=(16,)),
        lambda: covpool.attach("test_vit", "cov", 3, prefix_tokens="keep", backbone_options={"img_size": 96}),
        lambda: covpool.create_model("resnet18_isqrt_2k", 5, iterations=2),
        lambda: covpool.create_model("resnet18_modified", 5),
    ],
)
def test_the_architecture_survives_json_and_gives_the_same_network(network) -> None:
    first = network().eval()
    second = rebuild(json.loads(json.dumps(asdict(first.architecture)))).eval()
    assert second.architecture == first.architecture
    second.load_state_dict(first.state_dict())
    x = (
        torch.randn(1, 3, 96, 96)
        if getattr(first.architecture, "input_size", None) is None
        else torch.randn(1, 3, 160, 160)
    )
    assert torch.equal(first(x), second(x))


def test_a_network_of_an_object_is_rebuilt_on_another_such_object() -> None:
    def backbone() -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 1))

    first = covpool.attach(backbone(), "cov", 3, keep_last_stride=True).eval()
    second = rebuild(json.loads(json.dumps(asdict(first.architecture))), backbone=backbone()).eval()
    second.load_state_dict(first.state_dict())
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(first(x), second(x))
    with pytest.raises(ValueError, match="give `backbone`"):
        rebuild(first.architecture)
    with pytest.raises(ValueError, match="must be left out"):
        rebuild(covpool.create_model("resnet18").architecture, backbone=backbone())


def test_a_reset_network_tells_its_classes() -> None:
    network = covpool.attach("test_resnet", "cov", 7, reduce_to=8)
    network.reset_classifier(9)
    assert rebuild(network.architecture).num_classes == 9
    with pytest.raises(ValueError, match="kind"):
        rebuild({})


def test_of_two_old_streams_only_the_one_with_a_dense_form_keeps_its_stride() -> None:
    def streams() -> tuple[nn.Module, ...]:
        halving = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        return nn.Sequential(stem(), InceptionReduction()), nn.Sequential(stem(), halving)

    network = covpool.attach(streams(), "cross_cov", 3, input_size=64, reduce_to=4)
    assert isinstance(network.architecture, AttachedArchitecture) and network.architecture.dense_form
    old = {key: value for key, value in asdict(network.architecture).items() if key != "dense_form"}
    x = torch.randn(1, 3, 64, 64)
    sides = [
        [features.shape[-1] for features in rebuild(architecture, backbone=streams()).forward_features(x)]
        for architecture in (network.architecture, old)
    ]
    assert sides == [[30, 32], [15, 32]]
