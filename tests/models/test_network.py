import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import covpool
from covpool.models._architecture import NamedArchitecture
from covpool.models._network import Network


class Scores(covpool.Pool):
    """A pool that is its own classifier."""

    output = "scores"

    def pooled_size(self, c: int) -> int:
        return 3

    def _build(self) -> None:
        self.linear = nn.Linear(*self.channels, 3)

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        return self.linear(x.mean(1))


def small(**options: Any) -> Network:
    features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
    return Network(features, covpool.create_pool("isqrt", 8, reduce_to=4), nn.Linear(10, 5), **options)


def test_forward_is_the_three_parts_in_turn() -> None:
    network, x = small().eval(), torch.randn(2, 3, 10, 12)
    features = network.features(x)
    z = network.pool(features)
    assert torch.equal(network.forward_features(x), features)
    assert torch.equal(network.forward_pool(features), z)
    assert torch.equal(network(x), network.classifier(z))


def test_a_pool_of_scores_is_its_own_classifier() -> None:
    network, x = Network(nn.Conv2d(3, 8, 3), Scores(8), nn.Identity()), torch.randn(2, 3, 9, 9)
    assert torch.equal(network(x), network.pool(network.features(x)))
    assert network.num_classes == 3
    with pytest.raises(ValueError, match="its own classifier"):
        network.reset_classifier(4)
    groups = network.parameter_groups(0.1, head_factor=10)
    assert [(g["name"], g["lr"]) for g in groups] == [("features", 0.1), ("pool", 1.0)]


def test_reset_classifier_changes_the_last_layer_and_the_architecture_only() -> None:
    network = small(architecture=NamedArchitecture(name="x", num_classes=5))
    before = copy.deepcopy(network.state_dict())
    network.double().eval().reset_classifier(7)
    assert network(torch.randn(2, 3, 9, 9).double()).shape == (2, 7)
    assert network.architecture == NamedArchitecture(name="x", num_classes=7)
    for key, value in network.state_dict().items():
        if not key.startswith("classifier"):
            assert torch.equal(value.float(), before[key].float())


def test_resetting_keeps_the_hidden_layers() -> None:
    network = covpool.attach("test_resnet", "isqrt", 5, reduce_to=8, head_layers=(6,)).eval()
    hidden, x = network.classifier[0].weight.clone(), torch.randn(2, 3, 32, 32)
    network.reset_classifier(0)
    assert network.num_classes == 0 and network(x).shape == (2, 6) == (2, network.num_features)
    network.reset_classifier(3)
    assert network(x).shape == (2, 3) and torch.equal(network.classifier[0].weight, hidden)
    assert network.get_classifier() is network.classifier[-1]


def test_without_a_classifier_the_network_gives_the_representation() -> None:
    network, x = small().eval(), torch.randn(2, 3, 9, 9)
    z = network.forward_pool(network.forward_features(x))
    assert network.num_features == 10 and network.get_classifier() is network.classifier
    network.reset_classifier(0)
    assert torch.equal(network(x), z) and (network.num_classes, network.num_features) == (0, 10)
    network.double().reset_classifier(4)
    assert network(x.double()).shape == (2, 4)
    with pytest.raises(ValueError, match="num_classes"):
        network.reset_classifier(-1)


def test_a_classifier_that_ends_in_another_layer_is_refused() -> None:
    network = Network(nn.Conv2d(3, 8, 3), covpool.create_pool("avg", 8), nn.Conv1d(8, 3, 1))
    with pytest.raises(TypeError, match=r"must end in nn\.Linear"):
        network.reset_classifier(0)


@pytest.mark.parametrize(
    "name",
    [
        "tf_efficientnet_lite0",
        "torchvision/mobilenet_v2",
        "vit_tiny_patch16_224",
        "resnet50",
        "convnext_tiny.fb_in22k_ft_in1k_384",  # whole images, squashed to squares
    ],
)
def test_timm_reads_the_input_settings_of_a_network(name: str) -> None:
    timm = pytest.importorskip("timm")
    own = covpool.models.input_settings(name)
    with torch.device("meta"):
        network = covpool.attach(name, "avg", 3)
    found = timm.data.resolve_model_data_config(network)
    assert found["input_size"] == (3, own.size, own.size)
    sizes = timm.data.create_transform(**found).transforms[0].size
    assert ((sizes,) if isinstance(sizes, int) else sizes) == own.resize
    assert (found["mean"], found["std"], found["interpolation"]) == (own.mean, own.std, own.interpolation)
    if not name.startswith("torchvision"):
        with torch.device("meta"):
            expected = timm.data.resolve_model_data_config(timm.create_model(name))
        assert str(timm.data.create_transform(**found)) == str(timm.data.create_transform(**expected))
    assert network.default_cfg == network.pretrained_cfg


def test_parameter_groups_hold_every_parameter_once() -> None:
    network = small()
    groups = network.parameter_groups(0.1, head_factor=5, weight_decay=1e-4, decay_norms=False)
    found = [p for group in groups for p in group["params"]]
    assert sorted(map(id, found)) == sorted(map(id, network.parameters()))
    for group in groups:
        assert group["lr"] == (0.5 if group["name"].startswith("classifier") else 0.1)
        vectors = all(p.ndim < 2 for p in group["params"])
        assert group["weight_decay"] == (0.0 if vectors else 1e-4)
    torch.optim.SGD(groups, lr=0.1)


def test_parameter_groups_leave_out_what_is_frozen() -> None:
    network = small()
    network.features.requires_grad_(False)
    assert [g["name"] for g in network.parameter_groups(0.1)] == ["pool", "classifier"]
    with pytest.raises(ValueError, match="negative"):
        network.parameter_groups(-1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_output_has_the_precision_of_the_network(dtype: torch.dtype) -> None:
    network = small().to(dtype).eval()
    assert network(torch.randn(2, 3, 9, 9, dtype=dtype)).dtype == dtype


def test_checkpointing_is_refused_where_there_is_none() -> None:
    with pytest.raises(ValueError, match="timm"):
        small().set_grad_checkpointing()
