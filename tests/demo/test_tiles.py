from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from covpool.demo._tiles import (
    FLAT,
    GAP,
    PHOTOGRAPHS,
    SIZE,
    SPLITS,
    Box,
    Photograph,
    boxes,
    grey,
    strip,
    tile,
    write_tiles,
)


def overlap(one: Box, other: Box, margin: int = 0) -> bool:
    """Whether two boxes have a pixel in common, or are closer than `margin`."""
    across = one.left < other.right + margin and other.left < one.right + margin
    return across and one.top < other.bottom + margin and other.top < one.bottom + margin


@pytest.mark.parametrize("photograph", PHOTOGRAPHS, ids=lambda photograph: photograph.name)
def test_the_splits_of_a_photograph_share_no_pixel_and_keep_their_distance(photograph: Photograph) -> None:
    pixels = grey(photograph)
    height, width = pixels.shape
    cut = {split: boxes(split, pixels) for split in SPLITS}
    owner = np.zeros((height, width), dtype=int)  # bit mask of the splits that use a pixel
    for bit, found in enumerate(cut.values()):
        for box in found:
            assert 0 <= box.left < box.right <= width and 0 <= box.top < box.bottom <= height
            owner[box.top : box.bottom, box.left : box.right] |= 1 << bit
    assert set(np.unique(owner)) <= {0, 1, 2, 4}
    for one, other in combinations(cut.values(), 2):
        assert not any(overlap(a, b, GAP) for a in one for b in other)


@pytest.mark.parametrize("width", [300, 384, 451, 512, 1411])
def test_strips_lie_side_by_side_with_a_gap(width: int) -> None:
    strips = [strip(split, width, 300) for split in SPLITS]
    assert strips[0].left == 0 and strips[-1].right == width
    assert all(right.left - left.right == GAP for left, right in pairwise(strips))
    assert all((area.top, area.bottom) == (0, 300) for area in strips)


@pytest.mark.parametrize("photograph", PHOTOGRAPHS, ids=lambda photograph: photograph.name)
def test_test_tiles_do_not_overlap_and_are_enough(photograph: Photograph) -> None:
    found = boxes("test", grey(photograph))
    assert 10 <= len(found) <= 30
    assert not any(overlap(one, other) for one, other in combinations(found, 2))


def test_flat_tiles_are_left_out() -> None:
    photograph = np.full((200, 640), 90, dtype=np.uint8)
    assert boxes("test", photograph) == []
    photograph[:, ::2] = 90 + 3 * int(FLAT)
    assert boxes("test", photograph)


def test_all_tiles_have_one_mean_and_contrast() -> None:
    rng = np.random.default_rng(0)
    dim = rng.integers(3, 20, (60, 60)).astype(np.uint8)
    for photograph in (dim, dim * 10 + 40):
        pixels = np.asarray(tile(photograph, Box(5, 5, 53, 53)), dtype=float)
        assert pixels.shape == (SIZE, SIZE)
        assert abs(pixels.mean() - 128) < 0.5 and abs(pixels.std() - 48) < 0.5


def test_the_folder_contains_all_tiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covpool.demo._tiles.PHOTOGRAPHS", PHOTOGRAPHS[:2])
    counts = write_tiles(tmp_path)
    assert counts == {split: len(list((tmp_path / split).glob("*/*.png"))) for split in SPLITS}
    first = boxes("test", grey(PHOTOGRAPHS[0]))[0]
    with Image.open(tmp_path / "test" / PHOTOGRAPHS[0].name / f"x{first.left:04}_y{first.top:04}.png") as image:
        assert image.tobytes() == tile(grey(PHOTOGRAPHS[0]), first).tobytes()
