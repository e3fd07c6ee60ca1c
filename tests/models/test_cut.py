import pickle

import pytest
import torch
import torchvision
from torch import Tensor, nn

import covpool
from covpool.models._cut import cut_after_levels, cut_before_pool


class Branching(nn.Module):
    """A forward that depends on the image: it cannot be traced."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x) if x.sum() > 0 else x


def test_the_cut_keeps_what_the_forward_does_between_its_children() -> None:
    model = torchvision.models.densenet121().eval()
    x = torch.randn(1, 3, 64, 64)
    body = cut_before_pool(model, (3, 64, 64))
    with torch.no_grad():
        assert torch.equal(body(x), model.features(x).relu())
        assert torch.equal(model.classifier(body(x).mean((2, 3))), model(x))


def test_names_parameters_and_mode_are_those_of_the_model() -> None:
    model = torchvision.models.resnet18().train()
    body = cut_before_pool(model, (3, 64, 64))
    state = model.state_dict(keep_vars=True)
    assert set(state) - set(body.state_dict()) == {"fc.weight", "fc.bias"}
    assert all(value is state[key] for key, value in body.state_dict(keep_vars=True).items())
    assert body.training and all(m.training for m in body.modules())


def test_adaptive_pooling_to_a_grid_counts_as_pooling() -> None:
    body = cut_before_pool(torchvision.models.alexnet(), (3, 256, 256))
    assert body(torch.randn(1, 3, 256, 256)).shape == (1, 256, 7, 7)


def test_levels_may_be_nested_and_later_layers_are_removed() -> None:
    model = torchvision.models.vgg11().eval()
    body = cut_after_levels(model, ("features.10", "features.15"), "forward")
    x = torch.randn(1, 3, 64, 64)
    middle, late = body(x)
    assert torch.equal(middle, model.features[:11](x))
    assert torch.equal(late, model.features[:16](x))
    assert not any(name.startswith("features.18") for name, _ in body.named_modules())


def test_a_later_in_place_layer_does_not_change_a_level() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Conv2d(8, 4, 3)).eval()
    x = torch.randn(1, 3, 16, 16)
    normalized, last = cut_after_levels(model, ("1", "3"), "forward")(x)
    assert torch.equal(normalized, model[1](model[0](x)))
    assert normalized.min() < 0
    assert torch.equal(last, model(x))


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="did you mean 'layer3'"):
        cut_after_levels(torchvision.models.resnet18(), ("layer_3",), "forward")
    with pytest.raises(ValueError, match="does not call"):
        cut_after_levels(torchvision.models.googlenet(init_weights=False), ("aux1",), "forward")
    with pytest.raises(ValueError, match="cannot be traced"):
        cut_before_pool(Branching(), (3, 8, 8))
    with pytest.raises(ValueError, match="none to pool"):
        cut_before_pool(nn.Sequential(nn.Flatten(), nn.Linear(192, 5)), (3, 8, 8))


@pytest.mark.parametrize("name", ["torchvision/resnet18", "torchvision/mobilenet_v2"])
def test_a_network_that_was_cut_can_be_pickled(name: str) -> None:
    network = covpool.attach(name, "isqrt", num_classes=3, reduce_to=8).eval()
    again = pickle.loads(pickle.dumps(network))
    x = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(again(x), network(x))
    assert again.state_dict().keys() == network.state_dict().keys()
