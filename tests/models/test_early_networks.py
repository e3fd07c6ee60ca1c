import pytest
import torch

from covpool.models._early_networks import TABLES, early_features

# image size, channels, and map size before and after the last pooling, from the publications
EXPECTED = {"alexnet": (227, 256, 13, 6), "vgg_f": (224, 256, 13, 6), "vgg_m": (224, 512, 13, 6)}


@pytest.mark.parametrize("name", TABLES)
def test_maps_have_the_published_sizes(name: str) -> None:
    image, channels, before, after = EXPECTED[name]
    with torch.device("meta"):
        network, x = early_features(name).eval(), torch.empty(1, 3, image, image)
    assert network(x).shape == (1, channels, after, after)
    assert network[:-1](x).shape == (1, channels, before, before)


def test_the_convolutions_of_alexnet_have_the_published_weights() -> None:
    weights = {name: p.numel() for name, p in early_features("alexnet").named_parameters() if "conv" in name}
    assert list(weights.values()) == [34848, 307200, 884736, 663552, 442368]  # Krizhevsky et al., without biases
