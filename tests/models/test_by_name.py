import pytest

from covpool.models.by_name import classifier_by_name, split_blocks


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


def test_unknown_names_bring_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'resnet18'"):
        classifier_by_name("resnet_18")
    with pytest.raises(ValueError, match="did you mean 'resnet18'"):
        classifier_by_name("torchvision/resnet_18")
    with pytest.raises(ValueError, match="did you mean 'sort'"):
        classifier_by_name("resnet18+sortt")
