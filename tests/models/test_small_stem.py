"""ResNets for small images keep all positions, and differ from torchvision's in their stem alone."""

import pytest
import torch

from covpool.models._attach import make_features
from covpool.models._by_name import classifier_by_name


@pytest.mark.parametrize(("name", "channels"), [("resnet18", 512), ("resnet34", 512), ("resnet50", 2048)])
def test_the_small_stem_keeps_all_positions(name: str, channels: int) -> None:
    with torch.device("meta"):
        features = make_features(f"covpool/{name}_small_stem")
        assert features(torch.empty(2, 3, 64, 64)).shape == (2, channels, 16, 16)
        kept = make_features(f"covpool/{name}_small_stem+se", keep_last_stride=True)
        assert kept(torch.empty(2, 3, 64, 64)).shape == (2, channels, 8, 8)
    settings = features.input_settings
    assert (settings.size, settings.resize, features.image) == (64, (64,), (3, 64, 64))


def test_the_small_stem_changes_nothing_else() -> None:
    model, usual = classifier_by_name("covpool/resnet18_small_stem"), classifier_by_name("torchvision/resnet18")
    mine, theirs = ({k: tuple(v.shape) for k, v in one.state_dict().items()} for one in (model, usual))
    assert mine.pop("conv1.weight") == (64, 3, 3, 3) and theirs.pop("conv1.weight") == (64, 3, 7, 7)
    assert mine == theirs
    assert float(model.conv1.weight.detach().std()) == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.1)
