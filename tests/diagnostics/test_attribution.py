"""Contributions of positions and of pairs of channels against the network's own scores."""

from typing import Any

import pytest
import torch
from torch import nn

import covpool
from covpool.diagnostics import attribute
from covpool.models import Network


def network(pool: str, channels: int = 6, classes: int = 3, **options: Any) -> Network:
    made = covpool.create_pool(pool, channels, **options).double()
    return Network(nn.Identity(), made, nn.Linear(made.out_features, classes).double()).eval()


@pytest.mark.parametrize(
    ("pool", "options"),
    [
        *[("cov", {}), ("isqrt", {}), ("isqrt", {"iterations": 2}), ("mpn", {"alpha": 0.3})],
        ("cov", {"reduce_to": 4, "reduce_kind": "linear"}),
    ],
)
@pytest.mark.parametrize("side", [2, 5])
def test_contributions_add_up_to_the_score(pool: str, options: dict[str, Any], side: int) -> None:
    torch.manual_seed(0)
    net, x, targets = network(pool, **options), torch.rand(2, 6, side, side, dtype=torch.float64), torch.tensor([0, 2])
    with torch.no_grad():
        scores = (net(x) - net.classifier.bias).gather(1, targets[:, None])[:, 0]
    found = attribute(net, x, targets)
    torch.testing.assert_close(found.scores, scores)
    torch.testing.assert_close(found.positions.sum(1), scores)
    torch.testing.assert_close(found.parts.sum((1, 2)), scores)
    torch.testing.assert_close(found.parts, found.parts.mT)


def test_a_position_of_a_covariance_contributes_its_quadratic_form() -> None:
    torch.manual_seed(0)
    net, x = network("cov"), torch.randn(1, 6, 2, 2, dtype=torch.float64)
    rows = x[0].flatten(1).T
    rows = rows - rows.mean(0)
    weights = torch.zeros(6, 6, dtype=torch.float64)
    weights[*torch.triu_indices(6, 6)] = net.classifier.weight[1].detach()
    wanted = ((rows @ weights) * rows).sum(1) / 4
    torch.testing.assert_close(attribute(net, x, torch.tensor([1])).positions[0], wanted)


def test_averages_divide_into_class_activation_maps() -> None:
    torch.manual_seed(0)
    net, x = network("avg"), torch.randn(2, 6, 3, 2, dtype=torch.float64)
    found = attribute(net, x, torch.tensor([1, 0]))
    weights = net.classifier.weight[torch.tensor([1, 0])].detach()
    torch.testing.assert_close(found.positions, torch.einsum("bc,bchw->bhw", weights, x).flatten(1) / 6)
    torch.testing.assert_close(found.parts, weights * x.mean((2, 3)))


def test_only_the_largest_position_of_each_channel_counts_for_max_pooling() -> None:
    net, x = network("max", 2), torch.tensor([[[1.0, 5.0, 2.0], [7.0, 0.0, 3.0]]])[..., None]
    found, weights = attribute(net, x, torch.tensor([0])), net.classifier.weight[0].detach()
    torch.testing.assert_close(found.positions[0], torch.stack((7 * weights[1], 5 * weights[0], 0 * weights[0])))
    torch.testing.assert_close(found.parts[0], torch.stack((5 * weights[0], 7 * weights[1])))


def test_a_position_like_the_mean_contributes_nothing() -> None:
    x = torch.tensor([[[1.0, -1.0, 0.0], [2.0, -2.0, 0.0]]])[..., None]
    found = attribute(network("cov", 2), x, torch.tensor([0]))
    assert found.positions[0, 2] == 0 and found.positions[0, 0] == pytest.approx(float(found.positions[0, 1]))


def test_other_heads_are_refused() -> None:
    x, targets = torch.randn(1, 6, 3, 3), torch.tensor([0])
    for net in (network("gem"), network("isqrt", normalize="epn"), network("isqrt", project_to=4)):
        with pytest.raises(covpool.CovpoolError, match="linear classifier directly on a matrix"):
            attribute(net, x, targets)
    with pytest.raises(covpool.CovpoolError, match="Linear on AveragePool with its options"):
        attribute(network("avg", normalize="epn"), x, targets)
    with pytest.raises(covpool.CovpoolError, match="scales with the features"):
        attribute(network("isqrt", postcomp=False), x, targets)


def test_a_network_with_one_level_has_one_feature_map() -> None:
    torch.manual_seed(0)
    net = covpool.attach("torchvision/resnet18", "cov", num_classes=3, reduce_to=4, levels=("layer3",)).eval()
    features = net.forward_features(torch.rand(1, 3, 64, 64))
    assert isinstance(features, tuple)
    found = attribute(net, features, torch.tensor([1]))
    torch.testing.assert_close(found.positions, attribute(net, features[0], torch.tensor([1])).positions)
    with pytest.raises(covpool.CovpoolError, match="need one feature map; this network has 2"):
        attribute(net, (*features, *features), torch.tensor([1]))
