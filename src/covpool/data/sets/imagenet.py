"""ImageNet-1k (ILSVRC 2012): root/train/SYNSET/PICTURE and root/val/SYNSET/PICTURE, as torchvision unpacks it.

The archive of the development kit is not needed. Names of the classes come from torchvision's meta.bin or Kaggle's
LOC_synset_mapping.txt where one of them is there; the synsets stand for them otherwise.
"""

from dataclasses import replace
from pathlib import Path

import torch

from covpool.data._settings import Data
from covpool.data.sets import folder
from covpool.data.sets._layout import Parts
from covpool.data.sets._lists import entries, pair, reading


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
    meta, mapping = root / "meta.bin", root / "LOC_synset_mapping.txt"
    if meta.is_file():
        with reading(meta, "torchvision's names of the synsets, or be removed"):
            by_synset, _ = torch.load(meta, weights_only=True)
            return {synset: names[0] for synset, names in by_synset.items()}
    if mapping.is_file():
        return {synset: names.split(",")[0] for synset, names in entries(mapping, pair, "a synset and its names")}
    return {}
