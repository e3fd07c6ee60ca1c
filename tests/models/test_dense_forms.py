"""Dense forms of down-sampling modules: the output of the original at every second position."""

import copy

import pytest
import torch
from timm.models.levit import Levit
from timm.models.twins import Twins
from torch import Tensor, nn

from covpool.models._backbone import make_backbone
from covpool.models._last_stride import LastStrideKept, has_dense_form, remove_last_stride
from models.test_last_stride import stem


class Merging(nn.Module):
    """Swin's patch merging as its authors define it."""

    def __init__(self, channels: int, norm_first: bool) -> None:
        super().__init__()
        self.reduction = nn.Linear(4 * channels, 2 * channels, bias=False)
        self.norm = nn.LayerNorm((4 if norm_first else 2) * channels)
        self.norm_first = norm_first

    def forward(self, x: Tensor) -> Tensor:
        parts = [x[:, i::2, j::2] for i, j in ((0, 0), (1, 0), (0, 1), (1, 1))]
        x = torch.cat(parts, -1)
        return self.reduction(self.norm(x)) if self.norm_first else self.norm(self.reduction(x))


class InceptionReduction(nn.Module):
    """The last reduction of Inception-v3, whose pooling is a function."""

    def __init__(self) -> None:
        super().__init__()
        self.branch3x3_1, self.branch3x3_2 = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 6, 3, stride=2)
        self.branch7x7x3_1, self.branch7x7x3_2 = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 4, (1, 7), padding=(0, 3))
        self.branch7x7x3_3, self.branch7x7x3_4 = nn.Conv2d(4, 4, (7, 1), padding=(3, 0)), nn.Conv2d(4, 6, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        long = self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x)))
        parts = (self.branch3x3_2(self.branch3x3_1(x)), self.branch7x7x3_4(long), nn.functional.max_pool2d(x, 3, 2))
        return torch.cat(parts, 1)


class Moved(nn.Module):
    """A module on maps with channels last, inside a network with channels second."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.movedim(1, -1)).movedim(-1, 1)


@pytest.mark.parametrize(
    ("last", "changed"),
    [
        (Moved(Merging(8, norm_first=True)), "1.inner"),
        (Moved(Merging(8, norm_first=False)), "1.inner"),
        (InceptionReduction(), "1"),
    ],
)
def test_a_dense_form_has_the_output_of_the_original_at_every_second_position(last: nn.Module, changed: str) -> None:
    torch.manual_seed(0)
    backbone = make_backbone(nn.Sequential(stem(), last), input_size=(64, 64))
    x, state = torch.randn(1, 3, 64, 64), copy.deepcopy(backbone.state_dict())
    expected = backbone(x)
    remove_last_stride(backbone, "test")
    assert backbone.unstrided == (changed,)
    dense = backbone(x)
    torch.testing.assert_close(dense[:, :, ::2, ::2], expected)
    assert dense.shape[2] >= 2 * expected.shape[2] - 1
    assert all(torch.equal(value, state[key]) for key, value in backbone.state_dict().items())


def test_a_dense_form_that_does_not_fit_is_undone() -> None:
    class FixedSize(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.zeros(1, 20, 15, 15))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.table

    backbone = make_backbone(nn.Sequential(stem(), InceptionReduction(), FixedSize()), input_size=(64, 64))
    x = torch.randn(1, 3, 64, 64)
    expected = backbone(x)
    with pytest.warns(LastStrideKept, match="it takes images of 64 x 64 pixels only, so another backbone"):
        remove_last_stride(backbone, "test")
    assert torch.equal(backbone(x), expected) and backbone.unstrided == ()


@torch.no_grad()
def test_twins_merges_patches_at_every_position() -> None:
    torch.manual_seed(0)
    sizes = {"embed_dims": (8, 8, 8, 16), "num_heads": (1, 1, 1, 1), "depths": (1, 1, 1, 2)}
    twins = Twins(img_size=64, wss=(2, 2, 2, 2), num_classes=5, **sizes).eval()
    x = torch.randn(1, 8, 4, 4)
    before, size = twins.patch_embeds[3](x)
    backbone = make_backbone(twins, input_size=(64, 64))
    state = copy.deepcopy(backbone.state_dict())
    remove_last_stride(backbone, "twins")
    assert backbone.unstrided == ("patch_embeds.3",) and has_dense_form(backbone)
    assert backbone(torch.randn(1, 3, 64, 64)).numel() == 16 * 16
    dense, dense_size = backbone.get_submodule("body.patch_embeds.3")(x)
    assert (size, dense_size) == ((2, 2), (4, 4))
    torch.testing.assert_close(dense.unflatten(1, (4, 4))[:, ::2, ::2].flatten(1, 2), before)
    assert all(torch.equal(value, state[key]) for key, value in backbone.state_dict().items())


@pytest.mark.parametrize("use_conv", [False, True])
@torch.no_grad()
def test_levit_attends_at_every_position_with_the_same_weights(use_conv: bool) -> None:
    torch.manual_seed(0)
    sizes = {"embed_dim": (16, 24, 32), "num_heads": (1, 1, 1), "key_dim": 8, "depth": (1, 1, 1)}
    levit = Levit(img_size=128, use_conv=use_conv, num_classes=5, **sizes).eval()
    for name, parameter in levit.named_parameters():
        if name.endswith("attention_biases"):
            nn.init.normal_(parameter)
    x, down = torch.randn(1, 24, 4, 4), levit.stages[2].downsample.attn_downsample
    x = x if use_conv else x.flatten(2).mT
    before = down(x)
    backbone = make_backbone(levit, input_size=(128, 128))
    state = copy.deepcopy(backbone.state_dict())
    remove_last_stride(backbone, "levit")
    assert backbone.unstrided == ("stages.2.downsample.attn_downsample",) and has_dense_form(backbone)
    assert backbone(torch.randn(1, 3, 128, 128)).numel() == 16 * 32
    dense = backbone.get_submodule("body.stages.2.downsample.attn_downsample")(x)
    dense = (dense if use_conv else dense.mT.unflatten(2, (4, 4)))[:, :, ::2, ::2]
    torch.testing.assert_close(dense, before if use_conv else before.mT.unflatten(2, (2, 2)))
    assert all(torch.equal(value, state[key]) for key, value in backbone.state_dict().items())
