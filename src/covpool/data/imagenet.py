"""ImageNet-1k (ILSVRC 2012): root/train/SYNSET/PICTURE and root/val/SYNSET/PICTURE, as torchvision unpacks it.

The archive of the development kit is not needed. Names of the classes come from torchvision's meta.bin or Kaggle's
LOC_synset_mapping.txt where one of them is there; the synsets stand for them otherwise.
"""

from dataclasses import replace
from pathlib import Path

import torch

from covpool.data import folder
from covpool.data.options import Data
from covpool.data.place import Parts, rows


def parts(root: Path, data: Data) -> Parts:
    """train and val (its pictures for testing); class order is that of the sorted synsets, as everywhere."""
    found = folder.parts(root, data)
    names = _names(root)
    return {
        part: replace(images, classes=tuple(names.get(synset, synset) for synset in images.classes))
        for part, images in found.items()
    }


def _names(root: Path) -> dict[str, str]:
    """The first name of each synset."""
    if (root / "meta.bin").is_file():
        by_synset, _ = torch.load(root / "meta.bin", weights_only=True)
        return {synset: names[0] for synset, names in by_synset.items()}
    if (root / "LOC_synset_mapping.txt").is_file():
        listed = (row.split(maxsplit=1) for row in rows(root / "LOC_synset_mapping.txt"))
        return {synset: names.split(",")[0] for synset, names in listed}
    return {}
