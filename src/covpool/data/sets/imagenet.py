"""ImageNet-1k (ILSVRC 2012): root/train/SYNSET/IMAGE and root/val/SYNSET/IMAGE, as torchvision unpacks it.

The archive of the development kit is not needed. Class names come from torchvision's meta.bin or Kaggle's
LOC_synset_mapping.txt if one of them exists; otherwise the synsets are the class names.
"""

from dataclasses import replace
from pathlib import Path

import torch

from covpool.data._settings import Data
from covpool.data.sets import folder
from covpool.data.sets._layout import Subsets
from covpool.data.sets._lists import first_word, parse_lines, reading


def read(root: Path, data: Data) -> Subsets:
    """train and val; the classes are in the usual order, that of the sorted synsets."""
    names = _read_names(root)
    return {
        subset: replace(images, classes=tuple(names.get(synset, synset) for synset in images.classes))
        for subset, images in folder.read(root, data).items()
    }


def _read_names(root: Path) -> dict[str, str]:
    """The first name of each synset."""
    meta, mapping = root / "meta.bin", root / "LOC_synset_mapping.txt"
    if meta.is_file():
        with reading(meta, "torchvision's names of the synsets, or be removed"):
            names_of, _ = torch.load(meta, weights_only=True)
            return {synset: names[0] for synset, names in names_of.items()}
    if mapping.is_file():
        entries = parse_lines(mapping, first_word, "a synset and its names")
        return {synset: names.split(",")[0] for synset, names in entries}
    return {}
