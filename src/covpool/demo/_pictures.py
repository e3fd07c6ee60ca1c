"""The pictures of the demo: tiles of twelve photographs that come with scikit-image. Nothing is downloaded.

A class is a photograph, and the task to tell from which one a tile was cut. Train, validation and test tiles come from
three strips of it, side by side, with a gap between them. Tiles are grey, all of one mean and contrast, so that texture
alone tells them apart.
"""

from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from covpool._check import require

Pixels = NDArray[np.uint8]

SIZE = 48  # of what the network sees
MARGIN = 16  # training tiles are larger by this, so that the crop out of them can vary
GAP = 16  # between the strips
FLAT = 4.0  # grey levels; tiles that deviate less from their mean show nothing
MEAN, DEVIATION = 128.0, 48.0  # of every tile


@dataclass(frozen=True)
class Picture:
    """A photograph, with its terms of use as scikit-image states them."""

    name: str
    file: str
    terms: str


PICTURES = (
    Picture("astronaut", "astronaut.png", "NASA, public domain"),
    Picture("brick", "brick.png", "CC0Textures, CC0"),
    Picture("camera", "camera.png", "Lav Varshney, CC0"),
    Picture("cat", "chelsea.png", "Stefan van der Walt, CC0"),
    Picture("coffee", "coffee.png", "Rachel Michetti, CC0"),
    Picture("coins", "coins.png", "Brooklyn Museum, no known copyright restrictions"),
    Picture("galaxies", "hubble_deep_field.jpg", "NASA, public domain"),
    Picture("grass", "grass.png", "linolafett, CC0"),
    Picture("gravel", "gravel.png", "CC0Textures, CC0"),
    Picture("retina", "retina.jpg", "Mikael Häggström, CC0"),
    Picture("rocket", "rocket.jpg", "SpaceX, public domain"),
    Picture("tissue", "ihc.png", "CMMI, no known copyright restrictions"),
)


class Box(NamedTuple):
    """A part of a picture, in pixels; right and bottom do not belong to it."""

    left: int
    top: int
    right: int
    bottom: int


@dataclass(frozen=True)
class Part:
    """How the tiles of a part are cut.

    Attributes:
        span: of the picture's width.
        size: of a tile.
        stride: from tile to tile; test tiles do not overlap, so that each counts for itself.
        most: tiles per picture.
    """

    span: tuple[float, float]
    size: int
    stride: int
    most: int


PARTS = {
    "train": Part((0.0, 0.5), SIZE + MARGIN, 16, 60),
    "val": Part((0.5, 0.7), SIZE, SIZE // 2, 24),  # for the choice of the learning rates alone
    "test": Part((0.7, 1.0), SIZE, SIZE, 30),
}


def strip(part: str, width: int, height: int) -> Box:
    """The strip of a picture from which the tiles of a part come; half a gap is left on either side.

    >>> strip("train", 512, 512), strip("val", 512, 512)
    (Box(left=0, top=0, right=248, bottom=512), Box(left=264, top=0, right=350, bottom=512))
    """
    first, last = PARTS[part].span
    left = round(first * width) + (GAP // 2 if first > 0 else 0)
    right = round(last * width) - (GAP // 2 if last < 1 else 0)
    return Box(left, 0, right, height)


def boxes(part: str, picture: Pixels) -> list[Box]:
    """Where the tiles of a part lie in a grey picture (h, w): on a grid, flat ones left out, thinned out evenly."""
    area, size, stride = strip(part, *picture.shape[::-1]), PARTS[part].size, PARTS[part].stride
    found = [
        Box(left, top, left + size, top + size)
        for top in range(area.top, area.bottom - size + 1, stride)
        for left in range(area.left, area.right - size + 1, stride)
        if picture[top : top + size, left : left + size].std() >= FLAT
    ]
    count = min(len(found), PARTS[part].most)
    return [found[i] for i in np.linspace(0, len(found) - 1, count).round().astype(int)]


def grey(picture: Picture) -> Pixels:
    """A picture as it lies in scikit-image's package, (h, w)."""
    require("skimage", "plots")
    with as_file(files("skimage") / "data" / picture.file) as path, Image.open(path) as image:
        return np.asarray(image.convert("L"))


def tile(picture: Pixels, box: Box) -> Image.Image:
    """A part of a grey picture at the mean and contrast that all tiles have."""
    pixels = picture[box.top : box.bottom, box.left : box.right].astype(np.float64)
    even = (pixels - pixels.mean()) / pixels.std() * DEVIATION + MEAN
    return Image.fromarray(even.round().clip(0, 255).astype(np.uint8))


def write_tiles(root: Path) -> dict[str, int]:
    """Cut all tiles into root/PART/CLASS/*.png; how many there are of every part."""
    counts = dict.fromkeys(PARTS, 0)
    for picture in PICTURES:
        pixels = grey(picture)
        for part in PARTS:
            folder = root / part / picture.name
            folder.mkdir(parents=True, exist_ok=True)
            for box in boxes(part, pixels):
                tile(pixels, box).save(folder / f"x{box.left:04}_y{box.top:04}.png")
                counts[part] += 1
    return counts
