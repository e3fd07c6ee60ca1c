"""MIT Indoor67: 67 scenes, 80 / 20 pictures per class in TrainImages.txt and TestImages.txt, pictures in Images/."""

from pathlib import Path

from covpool.data._images import Images, Paths
from covpool.data._settings import Data
from covpool.data.sets._layout import Parts, base
from covpool.data.sets._lists import rows

LISTS = {"train": "TrainImages.txt", "test": "TestImages.txt"}


def parts(root: Path, data: Data) -> Parts:
    """train and test."""
    root = base(root, "indoorCVPR_09", *LISTS.values(), "Images")
    listed = {part: list(rows(root / name)) for part, name in LISTS.items()}
    classes = tuple(sorted({row.split("/")[0] for files in listed.values() for row in files}))
    numbers = {name: number for number, name in enumerate(classes)}

    def part(files: list[str]) -> Images:
        paths = Paths(root / "Images" / name for name in files)
        return Images(paths, [numbers[name.split("/")[0]] for name in files], classes)

    return {name: part(files) for name, files in listed.items()}
