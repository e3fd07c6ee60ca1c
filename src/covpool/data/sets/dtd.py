"""DTD, the describable textures: 47 classes of 120 pictures, ten splits in three equal parts.

Accuracy is given as mean and deviation over the ten splits, each trained on train + val.
"""

from pathlib import Path

from covpool._check import check_choice
from covpool.data._images import Images, Paths
from covpool.data._settings import Data
from covpool.data.sets._layout import PART_NAMES, Parts, base
from covpool.data.sets._lists import rows


def parts(root: Path, data: Data) -> Parts:
    """train, val and test of the split `data.split`."""
    check_choice("data.split", data.split, range(1, 11))
    root = base(root, "dtd", *(f"labels/{part}{data.split}.txt" for part in PART_NAMES), "images")
    listed = {part: list(rows(root / "labels" / f"{part}{data.split}.txt")) for part in PART_NAMES}
    classes = tuple(sorted({row.split("/")[0] for part in PART_NAMES for row in listed[part]}))
    numbers = {name: number for number, name in enumerate(classes)}

    def part(files: list[str]) -> Images:
        paths = Paths(root / "images" / name for name in files)
        return Images(paths, [numbers[name.split("/")[0]] for name in files], classes)

    return {name: part(files) for name, files in listed.items()}
