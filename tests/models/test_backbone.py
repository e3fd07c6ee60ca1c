import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn

from covpool.models._backbone import Streams, image_shape, make_backbone, positions
from covpool.models._dry_run import observe


class Own(nn.Module):
    """A classifier with a `forward_features` that returns what it is told to."""

    def __init__(self, output: str) -> None:
        super().__init__()
        self.output = output
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.head = nn.Linear(4, 10)

    def forward_features(self, x: Tensor) -> object:
        x = self.conv(x)
        return {
            "map": x,
            "channels_last": x.movedim(1, -1),
            "tokens": x.flatten(2).mT,
            "prefixed": torch.cat((x.new_zeros(x.shape[0], 2, 4), x.flatten(2).mT), 1),
            "list": [x],
            "pooled": x.mean((2, 3)),
            "token": x.mean((2, 3)).unsqueeze(1),
        }[self.output]

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.conv(x).mean((2, 3)))


@pytest.mark.parametrize(
    ("output", "layout", "prefix"),
    [
        ("map", "channels_first", 0),
        ("channels_last", "channels_last", 0),
        ("tokens", "tokens", 0),
        ("prefixed", "tokens", 2),
    ],
)
def test_layout_channels_and_prefix_are_read_off_a_dry_run(output: str, layout: str, prefix: int) -> None:
    backbone = make_backbone(Own(output), input_size=(32, 32))
    assert (backbone.layout, backbone.channels, backbone.prefix) == (layout, (4,), prefix)
    assert backbone.removed == ("head",)
    assert positions(backbone, observe(backbone, backbone.image)) == 256


@pytest.mark.parametrize(
    ("output", "error", "message"),
    [("list", TypeError, "got list"), ("pooled", ValueError, "already pooled"), ("token", ValueError, "single token")],
)
def test_what_is_no_feature_map_is_refused(output: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make_backbone(Own(output))


def test_features_are_those_of_the_classifier() -> None:
    x = torch.randn(1, 3, 160, 160)
    model = timm.create_model("test_resnet").eval()
    assert torch.equal(make_backbone(model)(x), model.forward_features(x))
    vit = timm.create_model("test_vit").eval()
    assert torch.equal(make_backbone(vit)(x), vit.forward_features(x)[:, 1:])


def test_the_mode_of_every_module_is_kept() -> None:
    model = torchvision.models.resnet18().train()
    model.bn1.eval()
    backbone = make_backbone(model)
    assert backbone.body.layer1.training and not backbone.body.bn1.training


def test_image_shape() -> None:
    with torch.device("meta"):
        assert image_shape(timm.create_model("test_vit")) == (3, 160, 160)
        assert image_shape(timm.create_model("test_vit", img_size=96, in_chans=4)) == (4, 96, 96)
        assert image_shape(timm.create_model("tresnet_m")) == (3, 224, 224)  # its first convolution sees 48 channels
        assert image_shape(torchvision.models.resnet18(), (64, 96)) == (3, 64, 96)
        assert image_shape(torchvision.models.vit_b_32(image_size=384)) == (3, 384, 384)


def test_streams_join_their_features() -> None:
    streams = Streams([Own("map").conv, nn.Identity()])
    x = torch.randn(1, 3, 8, 8)
    first, second = streams(x)
    assert first.shape == (1, 4, 4, 4)
    assert second is x
