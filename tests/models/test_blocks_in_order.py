"""Finding the block before the last features."""

import pytest

from covpool.models import make_features, previous_block


@pytest.mark.parametrize(
    ("backbone", "expected", "channels"),
    [
        ("torchvision/mobilenet_v2", "features.17", 320),
        ("torchvision/resnet18", "layer3.1", 256),
        ("tf_efficientnet_lite0", "blocks.6.0", 320),
        ("vit_tiny_patch16_224", "blocks.10", 192),
        ("test_resnet", "layer3.0", 192),
    ],
)
def test_the_block_before_the_last_features_can_be_a_level(backbone: str, expected: str, channels: int) -> None:
    found = previous_block(make_features(backbone, keep_last_stride=True))  # type: ignore[arg-type]
    assert found == expected
    assert make_features(backbone, keep_last_stride=True, levels=[found]).channels == (channels,)
