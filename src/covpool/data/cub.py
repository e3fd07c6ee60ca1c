"""CUB-200-2011: 200 birds, 5,994 / 5,794 pictures in the official split."""

from pathlib import Path

from covpool.data.images import Images, Paths
from covpool.data.options import Data
from covpool.data.place import Parts, base, numbered

LISTS = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt")


def parts(root: Path, data: Data) -> Parts:
    """train and test, by train_test_split.txt."""
    root = base(root, "CUB_200_2011", *LISTS, "images")
    files, labels, split, names = (numbered(root / name) for name in LISTS)
    classes = tuple(names[number].partition(".")[2] or names[number] for number in sorted(names))

    def part(flag: str) -> Images:
        chosen = [number for number in files if split[number] == flag]
        paths = Paths(root / "images" / files[number] for number in chosen)
        return Images(paths, [int(labels[number]) - 1 for number in chosen], classes)

    return {"train": part("1"), "test": part("0")}
