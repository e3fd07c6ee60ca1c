import pytest
import torch

import covpool
from covpool.models import Backbone, Streams, make_features


def test_features_are_those_of_attach() -> None:
    torch.manual_seed(0)
    features = make_features("test_resnet", keep_last_stride=True)
    torch.manual_seed(0)
    network = covpool.attach("test_resnet", "avg", 3, keep_last_stride=True)
    x = torch.randn(2, 3, 64, 64)
    assert isinstance(features, Backbone) and features.layout == "channels_first"
    assert torch.equal(features.eval()(x), network.eval().forward_features(x))


def test_several_backbones_know_their_channels_and_layout() -> None:
    streams = make_features(("test_resnet", "test_vit"), keep_last_stride=True)
    assert isinstance(streams, Streams) and streams.layout == "auto"
    assert streams.channels == tuple(
        x.shape[i] for x, i in zip(streams(torch.randn(1, 3, 160, 160)), (1, 2), strict=True)
    )


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="choose one"):
        make_features("test_resnet", pretrained=True, weights="a.pth")
    with pytest.raises(ValueError, match="one file per backbone, 1; got 2"):
        make_features("test_resnet", weights=("a.pth", "b.pth"))
