"""The input settings of backbones, against the figures their libraries publish."""

import pytest

from covpool.models import InputSettings, input_settings
from covpool.models._input_settings import _from_timm


@pytest.mark.parametrize(
    ("backbone", "weights", "expected"),
    [
        ("tf_efficientnet_lite0", None, InputSettings(224, (256,), (0.5,) * 3, (0.5,) * 3, "bicubic")),
        ("torchvision/mobilenet_v2", "folder/mobilenet_v2-b0353104.pth", InputSettings(224, (256,))),
        ("torchvision/mobilenet_v2", None, InputSettings(224, (232,))),
        ("torchvision/mobilenet_v2", "my_own_file.pth", InputSettings(224, (232,))),
        ("torchvision/resnet50+se", "resnet50-0676ba61.pth", InputSettings(224, (256,))),
        ("vit_tiny_patch16_224", None, InputSettings(224, (248,), (0.5,) * 3, (0.5,) * 3, "bicubic")),
        ("convnext_tiny.fb_in22k_ft_in1k_384", None, InputSettings(384, (384, 384), interpolation="bicubic")),
        ("torchvision/inception_v3", None, InputSettings(299, (342,))),
        ("covpool/alexnet", None, InputSettings()),
        ("no_such_model", None, InputSettings()),
    ],
)
def test_settings_come_from_the_library(backbone: str, weights: str | None, expected: InputSettings) -> None:
    assert input_settings(backbone, weights) == expected


def test_a_border_that_covpool_cannot_add_is_said(caplog: pytest.LogCaptureFixture) -> None:
    config = {"input_size": (3, 384, 384), "crop_mode": "border", "mean": (0.5,) * 3, "std": (0.5,) * 3}
    found = _from_timm({**config, "interpolation": "bicubic", "architecture": "some_net"})
    assert found.resize == (384,)
    (record,) = caplog.records
    assert "some_net was evaluated on whole images with a border" in record.getMessage()
