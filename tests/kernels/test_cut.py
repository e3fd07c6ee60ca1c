"""covpool.kernels.cut: the regions that matrix products give, which are compared with PIL."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from covpool.data.pipeline._boxes import Boxes
from covpool.data.pipeline._cut import cut_by_products
from covpool.kernels import cut
from data.pipeline.test_cut import SIZES, packed, regions
from kernels.oracles import DEVICE

REGIONS = [(3.0, 5.0, 30.0, 40.0), (-3.5, 2.25, 64.0, 40.0), (32.0, 30.0, 1.0, 1.0), (2.0, 60.0, 18.0, 29.0)]


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut, "ROWS", 16)
    monkeypatch.setattr(cut, "COLUMNS", 16)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize(("flipped", "whole"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize(("size", "part"), [(1, 1 / 8), (7, 1.0), (17, 1.0), (17, 1 / 8)])
def test_regions_equal_those_by_matrix_products(
    interpolation: str, flipped: bool, whole: bool, size: int, part: float
) -> None:
    _, *images = packed()
    smaller = [(top, left, height * part, width * part) for top, left, height, width in REGIONS]
    boxes = regions(smaller, flipped=flipped, whole=whole)
    expected = cut_by_products(*images, boxes, size=size, extent=(64, 90), interpolation=interpolation)  # type: ignore[arg-type]
    found = cut.cut_regions(
        *(t.to(DEVICE) for t in images),
        tuple(t.to(DEVICE) for t in boxes),
        size=size,
        cubic=interpolation == "bicubic",
    )
    torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=5e-3)  # of 255; centers are rounded to float32


def test_the_kernel_starts_on_the_device_of_the_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    current, used = [], []

    @contextmanager
    def device_of(tensor: Tensor) -> Iterator[None]:
        current.append(tensor)
        yield
        current.pop()

    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    monkeypatch.setattr(cut, "launch_kernel", lambda *_, **__: used.extend(current))
    _, pixels, *others = packed()
    cut.cut_regions(pixels, *others, tuple(regions(REGIONS)), size=7, cubic=False)
    assert len(used) == 1 and used[0] is pixels


def test_no_regions() -> None:
    _, pixels, starts, sizes = (t if isinstance(t, list) else t.to(DEVICE) for t in packed())
    none = Boxes(*(t[:0].to(DEVICE) for t in regions(REGIONS)))
    assert cut.cut_regions(pixels, starts[:0], sizes[:0], none, size=8, cubic=False).shape == (0, 3, 8, 8)
    assert len(SIZES) == len(REGIONS)
