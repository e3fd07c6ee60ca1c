"""The images of the demo: tiles of twelve photographs that come with scikit-image. Nothing is downloaded.

Each photograph is a class, and the task is to tell which photograph a tile comes from. The training, validation and
test tiles come from three strips of the photograph, side by side, with a gap between them. All tiles are grey and have
the same mean and contrast, so that only texture distinguishes them.
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

SIZE = 48  # height and width of the network's input
MARGIN = 16  # training tiles are larger by this, for random crops
GAP = 16  # pixels between the strips
FLAT = 4.0  # grey levels; a tile with a smaller standard deviation shows nothing
MEAN, DEVIATION = 128.0, 48.0  # grey levels of every tile


@dataclass(frozen=True)
class Photograph:
    """A photograph, with its terms of use as scikit-image states them."""

    name: str
    file: str
    terms: str


PHOTOGRAPHS = (
    Photograph("astronaut", "astronaut.png", "NASA, public domain"),
    Photograph("brick", "brick.png", "CC0Textures, CC0"),
    Photograph("camera", "camera.png", "Lav Varshney, CC0"),
    Photograph("cat", "chelsea.png", "Stefan van der Walt, CC0"),
    Photograph("coffee", "coffee.png", "Rachel Michetti, CC0"),
    Photograph("coins", "coins.png", "Brooklyn Museum, no known copyright restrictions"),
    Photograph("galaxies", "hubble_deep_field.jpg", "NASA, public domain"),
    Photograph("grass", "grass.png", "linolafett, CC0"),
    Photograph("gravel", "gravel.png", "CC0Textures, CC0"),
    Photograph("retina", "retina.jpg", "Mikael Häggström, CC0"),
    Photograph("rocket", "rocket.jpg", "SpaceX, public domain"),
    Photograph("tissue", "ihc.png", "CMMI, no known copyright restrictions"),
)


class Box(NamedTuple):
    """A rectangle in a photograph, in pixels; right and bottom are exclusive."""

    left: int
    top: int
    right: int
    bottom: int


@dataclass(frozen=True)
class TileGrid:
    """How the tiles of a split are cut from a photograph.

    Attributes:
        span: Start and end of the split's strip, as fractions of the width.
        size: Height and width of a tile.
        stride: Distance between neighbouring tiles. Test tiles do not overlap, so that they are independent.
        most: Largest number of tiles per photograph.
    """

    span: tuple[float, float]
    size: int
    stride: int
    most: int


SPLITS = {
    "train": TileGrid((0.0, 0.5), SIZE + MARGIN, 16, 60),
    "val": TileGrid((0.5, 0.7), SIZE, SIZE // 2, 24),  # only for choosing the learning rates
    "test": TileGrid((0.7, 1.0), SIZE, SIZE, 30),
}


def strip(split: str, width: int, height: int) -> Box:
    """Return the strip of a photograph that the tiles of a split come from, with half a gap on either side.

    >>> strip("train", 512, 512), strip("val", 512, 512)
    (Box(left=0, top=0, right=248, bottom=512), Box(left=264, top=0, right=350, bottom=512))
    """
    first, last = SPLITS[split].span
    left = round(first * width) + (GAP // 2 if first > 0 else 0)
    right = round(last * width) - (GAP // 2 if last < 1 else 0)
    return Box(left, 0, right, height)


def boxes(split: str, pixels: Pixels) -> list[Box]:
    """Return the tiles of a split in a grey photograph (h, w): a grid without flat tiles, thinned out evenly."""
    area, grid = strip(split, *pixels.shape[::-1]), SPLITS[split]
    size, stride = grid.size, grid.stride
    found = [
        Box(left, top, left + size, top + size)
        for top in range(area.top, area.bottom - size + 1, stride)
        for left in range(area.left, area.right - size + 1, stride)
        if pixels[top : top + size, left : left + size].std() >= FLAT
    ]
    count = min(len(found), grid.most)
    return [found[i] for i in np.linspace(0, len(found) - 1, count).round().astype(int)]


def grey(photograph: Photograph) -> Pixels:
    """Read a photograph from scikit-image's package as grey levels (h, w)."""
    require("skimage", "plots")
    with as_file(files("skimage") / "data" / photograph.file) as path, Image.open(path) as image:
        return np.asarray(image.convert("L"))


def tile(photograph: Pixels, box: Box) -> Image.Image:
    """Cut a tile from a grey photograph and give it the mean and contrast of all tiles."""
    pixels = photograph[box.top : box.bottom, box.left : box.right].astype(np.float64)
    even = (pixels - pixels.mean()) / pixels.std() * DEVIATION + MEAN
    return Image.fromarray(even.round().clip(0, 255).astype(np.uint8))


def write_tiles(root: Path) -> dict[str, int]:
    """Cut all tiles into root/SPLIT/CLASS/*.png. Returns the number of tiles per split."""
    counts = dict.fromkeys(SPLITS, 0)
    for photograph in PHOTOGRAPHS:
        pixels = grey(photograph)
        for split in SPLITS:
            folder = root / split / photograph.name
            folder.mkdir(parents=True, exist_ok=True)
            for box in boxes(split, pixels):
                tile(pixels, box).save(folder / f"x{box.left:04}_y{box.top:04}.png")
                counts[split] += 1
    return counts
