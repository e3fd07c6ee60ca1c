"""DTD, the Describable Textures Dataset: 47 classes of 120 images, ten splits into three equal subsets.

Accuracy is reported as mean and standard deviation over the ten splits, each trained on train + val.
"""

from pathlib import Path

from covpool.data._settings import Data
from covpool.data.sets._layout import SUBSETS, Subsets, find_root, read_class_lists

SPLITS = 10


def read(root: Path, data: Data) -> Subsets:
    """train, val and test of the split `data.split`."""
    lists = {subset: f"labels/{subset}{data.split}.txt" for subset in SUBSETS}
    root = find_root(root, "dtd", *lists.values(), "images")
    return read_class_lists(root / "images", {subset: root / name for subset, name in lists.items()})
