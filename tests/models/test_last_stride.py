import copy
import warnings

import pytest
import torch
from torch import Tensor, nn

from covpool.models._backbone import make_backbone
from covpool.models._last_stride import LastStrideKept, remove_last_stride


class Residual(nn.Module):
    """A block that halves the map in two branches, as `shortcut` says how."""

    def __init__(self, shortcut: nn.Module) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x) + self.shortcut(x)


class Slice(nn.Module):
    """Keeps every second position, without a module that could be changed."""

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Identity()
        self.register_forward_hook(lambda module, inputs, output: output[:, :, ::2, ::2])


class ReducedAttention(nn.Module):
    """Shrinks its keys for itself: no part of the down-sampling of the network."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = nn.Conv2d(8, 8, 2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.keys(x).mean((2, 3), keepdim=True)


def stem() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU())


@pytest.mark.parametrize(
    ("last", "changed"),
    [
        (Residual(nn.Conv2d(8, 8, 1, stride=2)), ("1.conv", "1.shortcut")),
        (Residual(nn.AvgPool2d(2, ceil_mode=True)), ("1.conv", "1.shortcut")),
        (nn.MaxPool2d(3, 2), ("1",)),
        (nn.Conv2d(8, 8, 2, stride=2), ("1",)),
        (nn.Sequential(ReducedAttention(), nn.MaxPool2d(2)), ("1.1",)),
        (
            nn.Sequential(nn.Conv2d(8, 8, 3, stride=2), nn.Conv2d(8, 8, 3)),  # trimmed after the down-sampling
            ("1.0",),
        ),
    ],
)
def test_the_last_down_sampling_goes_in_all_its_branches(last: nn.Module, changed: tuple[str, ...]) -> None:
    model = nn.Sequential(stem(), last, nn.Conv2d(8, 4, 3, padding=1))
    backbone = make_backbone(model, input_size=(64, 64))
    x = torch.randn(1, 3, 64, 96)
    before, state = backbone(x).shape, copy.deepcopy(backbone.state_dict())
    remove_last_stride(backbone, "test")
    assert backbone.unstrided == changed
    assert backbone(x).shape[2] >= 2 * before[2] - 1
    assert all(torch.equal(value, state[key]) for key, value in backbone.state_dict().items())


def test_poolings_beside_unpadded_convolutions_get_stride_one() -> None:
    class Reduction(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.pool = nn.Conv2d(8, 8, 3, stride=2), nn.MaxPool2d(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat((self.conv(x), self.pool(x)), 1)

    backbone = make_backbone(nn.Sequential(stem(), Reduction()), input_size=(64, 64))
    remove_last_stride(backbone, "test")
    assert backbone(torch.randn(1, 3, 64, 64)).shape == (1, 16, 30, 30)


def test_a_network_with_nothing_to_remove_is_silent() -> None:
    for padding in (0, 1):
        backbone = make_backbone(nn.Sequential(nn.Conv2d(3, 8, 4, stride=4), nn.Conv2d(8, 8, 3, padding=padding)))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            remove_last_stride(backbone, "isotropic")
        assert backbone.unstrided == ()


@pytest.mark.parametrize("last", [Slice(), Residual(Slice())])
def test_what_cannot_be_removed_stays_and_is_named(last: nn.Module) -> None:
    backbone = make_backbone(nn.Sequential(stem(), last), input_size=(64, 64))
    text, x = repr(backbone), torch.randn(1, 3, 64, 64)
    expected = backbone(x)
    with pytest.warns(LastStrideKept, match="test keeps its last stride"):
        remove_last_stride(backbone, "test")
    assert repr(backbone) == text
    assert torch.equal(backbone(x), expected)


def test_the_warning_names_larger_images() -> None:
    backbone = make_backbone(nn.Sequential(stem(), Slice()), input_size=(64, 64))
    with pytest.warns(LastStrideKept, match=r"larger images give .* \(128 x 128 pixels: 1024 instead of 256\)"):
        remove_last_stride(backbone, "test")
