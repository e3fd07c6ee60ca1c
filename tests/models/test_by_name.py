from urllib.error import URLError

import pytest
import torch
import torchvision

import covpool
from covpool.models._by_name import classifier_by_name, split_blocks


def test_plain_names_are_timm_s_and_prefixed_ones_torchvision_s() -> None:
    assert type(classifier_by_name("resnet18")).__module__.startswith("timm.")
    assert type(classifier_by_name("torchvision/resnet18")).__module__.startswith("torchvision.")


def test_options_are_passed_on() -> None:
    assert classifier_by_name("test_resnet", in_chans=1).conv1[0].in_channels == 1
    assert classifier_by_name("torchvision/resnet18", num_classes=3).fc.out_features == 3


def test_blocks_are_inserted_in_order() -> None:
    first = classifier_by_name("torchvision/resnet18+se+cbam", num_classes=3).layer1[0]
    assert first.branch[-3:] == ("bn2", "se", "cbam")
    assert split_blocks("torchvision/resnet18") == ("torchvision/resnet18", [])
    assert split_blocks("hf-hub:timm/c++") == ("hf-hub:timm/c++", [])


@pytest.mark.parametrize(("name", "channels"), [("alexnet", 256), ("vgg_f", 256), ("vgg_m", 512)])
def test_any_pool_on_the_early_networks(name: str, channels: int) -> None:
    """They lose their last max-pool: 13 x 13 positions at 224 pixels."""
    with torch.device("meta"):
        network = covpool.attach(f"covpool/{name}", "bcnn", 7, reduce_to=None, head_layers=(32, 16), normalize="bn")
        assert network.forward_features(torch.empty(2, 3, 224, 224)).shape == (2, channels, 13, 13)
    assert network.pool.out_features == channels**2 and network.num_classes == 7
    assert network.features.unstrided == ("pool5",)


def test_an_early_network_by_name_is_the_one_of_the_paper() -> None:
    with torch.device("meta"):
        attached = covpool.attach("covpool/alexnet", "isqrt", 10, head_layers=(4096, 4096))
        named = covpool.create_model("alexnet_isqrt_32k", 10)
    shapes = [{key: value.shape for key, value in network.state_dict().items()} for network in (attached, named)]
    assert shapes[0] == shapes[1]


def test_early_networks_come_as_they_are() -> None:
    with pytest.raises(ValueError, match="did you mean 'alexnet'"):
        classifier_by_name("covpool/alexnt")
    with pytest.raises(ValueError, match="covpool/vgg_m has no weights to download"):
        classifier_by_name("covpool/vgg_m", pretrained=True)
    with pytest.raises(TypeError, match="takes no options; got num_classes"):
        classifier_by_name("covpool/vgg_m", num_classes=3)


def test_without_a_network_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise URLError("no route")

    monkeypatch.setattr(torchvision.models, "get_model", unreachable)
    with pytest.raises(OSError, match=r"resnet18' could not be downloaded .*no route.*: give a file \(weights=FILE"):
        classifier_by_name("torchvision/resnet18", pretrained=True)


def test_unknown_names_bring_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'resnet18'"):
        classifier_by_name("resnet_18")
    with pytest.raises(ValueError, match="did you mean 'resnet18'"):
        classifier_by_name("torchvision/resnet_18")
    with pytest.raises(ValueError, match="did you mean 'sort'"):
        classifier_by_name("resnet18+sortt")


def test_the_first_resnets_have_their_strides_in_1x1_convolutions() -> None:
    with torch.device("meta"):
        model = classifier_by_name("covpool/resnet50_v1")
        assert model.layer2(torch.empty(1, 256, 8, 8)).shape == (1, 512, 4, 4)
    assert [model.layer2[0].conv1.stride, model.layer2[0].conv2.stride] == [(2, 2), (1, 1)]
    assert {model.layer2[1].conv1.stride, model.layer1[0].conv2.stride} == {(1, 1)}
    with pytest.raises(ValueError, match="takes no options"):
        classifier_by_name("covpool/resnet50_v1", num_classes=3)
