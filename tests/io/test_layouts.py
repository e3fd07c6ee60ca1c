"""Which file is which network, told from names and shapes."""

import pytest
import torch
import torchvision

from covpool.io._layouts import CONVOLUTION, NORM, State, recognize

NUMBERS = {"conv1": "0", "bn1": "1", "layer1": "4", "layer2": "5", "layer3": "6", "layer4": "7"}


def names_of(model: str) -> State:
    """Without memory: only names and shapes count."""
    with torch.device("meta"):
        made = torchvision.models.get_model(model)
    return made.state_dict()


def empty(*names: str) -> State:
    return {name: torch.empty(1, device="meta") for name in names}


def numbered(model: str) -> State:
    state = {}
    for name, tensor in names_of(model).items():
        first, _, rest = name.partition(".")
        if first in NUMBERS:
            state[f"features.{NUMBERS[first]}.{rest}"] = tensor
    return state


@pytest.mark.parametrize("model", ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152"])
def test_depth_of_a_resnet(model: str) -> None:
    release = {**names_of(model), **empty("layer_reduce.weight")}
    assert recognize(release).backbone == model
    assert recognize(release).keep_last_stride is False
    fine_tuned = {**numbered(model), **empty("features.8.weight")}
    assert recognize(fine_tuned).backbone == model
    assert recognize(fine_tuned).name.startswith("C")


def test_the_stride_is_open_only_where_two_trainings_give_the_same_names() -> None:
    reduction = empty("representation.conv_dr_block.0.weight")
    assert recognize({**numbered("resnet50"), **reduction}).keep_last_stride is None
    assert recognize({**numbered("resnet101"), **reduction}).keep_last_stride is None
    assert recognize({**numbered("resnet34"), **reduction}).keep_last_stride is True
    assert recognize(numbered("resnet50")).keep_last_stride is True


@pytest.mark.parametrize("model", ["vgg11", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "alexnet"])
def test_depth_of_a_chain(model: str) -> None:
    layout = recognize(names_of(model))
    assert layout.backbone == model
    assert layout.keep_last_stride is False


@pytest.mark.parametrize("model", ["densenet121", "densenet161", "densenet169", "densenet201"])
def test_depth_of_a_densenet(model: str) -> None:
    layout = recognize(names_of(model))
    assert layout.backbone == model
    assert layout.keep_last_stride is True


def test_names() -> None:
    layout = recognize({**names_of("resnet50"), **empty("layer_reduce.weight")})
    assert layout.rename("layer4.0.downsample.1.running_var") == "features.body.layer4.0.downsample.1.running_var"
    assert layout.rename("layer_reduce.weight") == f"{CONVOLUTION}.weight"
    assert layout.rename("layer_reduce_bn.bias") == f"{NORM}.bias"
    assert layout.rename("fc.weight") == "classifier.weight"
    assert layout.rename("fcx.weight") is None


@pytest.mark.parametrize("state", [{}, names_of("resnet50"), names_of("squeezenet1_0"), names_of("mobilenet_v2")])
def test_plain_backbones_are_not_taken_for_ours(state: State) -> None:
    with pytest.raises(ValueError, match=r"must be a checkpoint of fast-MPN-COV, .* covpool\.attach"):
        recognize(state)
