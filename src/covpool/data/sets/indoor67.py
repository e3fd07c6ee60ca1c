"""MIT Indoor67: 67 scenes, 80 / 20 images per class in TrainImages.txt and TestImages.txt, images in Images/."""

from pathlib import Path

from covpool.data._settings import Data
from covpool.data.sets._layout import Subsets, find_root, read_class_lists


def read(root: Path, data: Data) -> Subsets:
    """train and test."""
    root = find_root(root, "indoorCVPR_09", "TrainImages.txt", "TestImages.txt", "Images")
    return read_class_lists(root / "Images", {"train": root / "TrainImages.txt", "test": root / "TestImages.txt"})
