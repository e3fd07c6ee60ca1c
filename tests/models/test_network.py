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

    def __init__(self, in_features: int, **common: Any) -> None:
        super().__init__(in_features, lambda c: 3, **common)
        self.linear = nn.Linear(in_features, 3)

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
def test_a_network_in_another_precision_answers_in_it(dtype: torch.dtype) -> None:
    network = small().to(dtype).eval()
    assert network(torch.randn(2, 3, 9, 9, dtype=dtype)).dtype == dtype


def test_checkpointing_is_refused_where_there_is_none() -> None:
    with pytest.raises(ValueError, match="timm"):
        small().set_grad_checkpointing()
