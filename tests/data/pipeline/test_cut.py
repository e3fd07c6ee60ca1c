"""Cropping and resizing by matrix products, compared with PIL."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from covpool.data.pipeline._boxes import Boxes
from covpool.data.pipeline._cut import cut, side_weights

SIZES = [(37, 53), (64, 40), (33, 33), (20, 90)]  # height, width


def packed(low: int = 0, high: int = 256) -> tuple[list[Image.Image], Tensor, Tensor, Tensor]:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(low, high, (h, w, 3), dtype=np.uint8) for h, w in SIZES]
    four = [np.concatenate([a, np.full_like(a[..., :1], 99)], 2).reshape(-1, 4) for a in arrays]  # 99 must not appear
    pixels = torch.from_numpy(np.concatenate(four)).view(torch.int32)[:, 0]
    areas = torch.tensor([h * w for h, w in SIZES])
    return [Image.fromarray(a) for a in arrays], pixels, areas.cumsum(0) - areas, torch.tensor(SIZES)


def regions(rows: list[tuple[float, ...]], *, flipped: bool = False, whole: bool = False) -> Boxes:
    top, left, height, width = torch.tensor(rows, dtype=torch.float32).T
    flags = torch.full_like(top, True, dtype=torch.bool)
    return Boxes(top, left, height, width, flags & flipped, flags & whole)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("size", [7, 16, 48])
def test_crop_and_resize_match_pil(interpolation: str, flipped: bool, size: int) -> None:
    images, pixels, starts, sizes = packed(64, 192)  # no clipping, since the side that Pillow resizes first varies
    rows = [(3, 5, 30, 40), (0, 0, 64, 40), (32, 32, 1, 1), (2, 60, 18, 29)]
    x = cut(
        *(pixels, starts, sizes, regions(rows, flipped=flipped)),
        size=size,
        extent=(64, 90),
        interpolation=interpolation,  # type: ignore[arg-type]
    )
    for image, (top, left, height, width), one in zip(images, rows, x, strict=True):
        box = image.crop((left, top, left + width, top + height))
        expected = np.asarray(box.resize((size, size), Image.Resampling[interpolation.upper()]), dtype=float)
        expected = expected[:, ::-1] if flipped else expected
        difference = np.abs(one.permute(1, 2, 0).numpy() - expected)
        assert difference.max() < (1.01 if interpolation == "bilinear" else 1.3)  # PIL rounds after each side
        assert difference.mean() < 0.5


def test_a_crop_without_resizing_is_exact_and_black_outside_the_image() -> None:
    images, pixels, starts, sizes = packed()
    rows = [(1, 2, 24, 24), (-3, 20, 24, 24), (10, -5, 24, 24), (-2, 80, 24, 24)]
    x = cut(pixels, starts, sizes, regions(rows, whole=True), size=24, extent=(64, 90))
    for image, (top, left, *_), one in zip(images, rows, x, strict=True):
        expected = np.asarray(image.crop((left, top, left + 24, top + 24)))  # PIL pads with black
        assert np.array_equal(one.permute(1, 2, 0).numpy(), expected)


def test_the_filter_of_a_resized_image_reads_across_the_border_of_the_region() -> None:
    images, pixels, starts, sizes = packed()
    resized = images[1].resize((20, 32), Image.Resampling.BILINEAR)  # half the size
    expected = np.asarray(resized.crop((3, 5, 13, 15)), dtype=float)
    x = cut(pixels, starts[1:2], sizes[1:2], regions([(10, 6, 20, 20)], whole=True), size=10, extent=(64, 40))
    assert np.abs(x[0].permute(1, 2, 0).numpy() - expected).max() < 1.01


def test_the_overshoot_of_a_cubic_is_clipped() -> None:
    _, pixels, starts, sizes = packed()
    x = cut(pixels, starts, sizes, regions([(0, 0, 16, 16)] * 4), size=40, extent=(64, 90), interpolation="bicubic")
    assert (float(x.min()), float(x.max())) == (0, 255)


def test_weights_sum_to_one_inside_and_zero_outside() -> None:
    one, no = torch.tensor([4.0]), torch.tensor([True])
    weights = side_weights(-one, 8 * one / 4, 6 * one / 4, no, (8, 16), "bicubic")
    assert weights[0].sum(-1).tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_autocast_has_no_effect() -> None:
    _, pixels, starts, sizes = packed()
    arguments = (pixels, starts, sizes, regions([(3, 5, 30, 40)] * 4))
    plain = cut(*arguments, size=16, extent=(64, 90))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(cut(*arguments, size=16, extent=(64, 90)), plain)
