"""ImageNet-1k (ILSVRC 2012): root/train/SYNSET/IMAGE and root/val/SYNSET/IMAGE, as torchvision unpacks it.

A flat root/val/IMAGE, as in the archive, needs the ground truth: the development kit ILSVRC2012_devkit_t12 in root, or
Kaggle's LOC_val_solution.csv. Class names come from torchvision's meta.bin, Kaggle's LOC_synset_mapping.txt or the
development kit, the first that exists; otherwise the synsets are the class names.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from covpool._errors import CovpoolError, require
from covpool.data._listing import find_images
from covpool.data._settings import Data
from covpool.data.sets import folder
from covpool.data.sets._layout import (
    REPAIR,
    Subsets,
    describe_folder,
    first_word,
    make_images,
    number_classes,
    parse_lines,
    reading,
)

DEVKIT = "ILSVRC2012_devkit_t12/data"
TRUTH = "ILSVRC2012_validation_ground_truth.txt"
SOLUTION = "LOC_val_solution.csv"


def read(root: Path, data: Data) -> Subsets:
    """train and val; the classes are in the usual order, that of the sorted synsets."""
    names = _read_names(root)
    subsets = _read_flat(root) if _is_flat(root / "val") else folder.read(root, data)
    return {
        subset: replace(images, classes=tuple(names.get(synset, synset) for synset in images.classes))
        for subset, images in subsets.items()
    }


def _is_flat(val: Path) -> bool:
    return val.is_dir() and not any(path.is_dir() for path in val.iterdir())


def _read_flat(root: Path) -> Subsets:
    """train, and a flat val with the classes of the ground truth."""
    train = folder.list_images(root / "train")
    target = number_classes(train.classes)
    synset_of = _read_truth(root)
    listed = []
    for path in find_images(root / "val"):
        try:
            listed.append((path.name, target[synset_of(path)]))
        except LookupError as error:
            raise CovpoolError(
                f"every image in {root / 'val'} must have a synset of {root / 'train'} in the ground truth; "
                f"{path.name} has none: {REPAIR}"
            ) from error
    return {"train": train, "val": make_images(root / "val", listed, train.classes)}


def _read_truth(root: Path) -> Callable[[Path], str]:
    """The synset of a validation image, by the development kit or Kaggle's list."""
    solution, truth = root / SOLUTION, root / DEVKIT / TRUTH
    if truth.is_file():
        synsets = [str(entry["WNID"]) for entry in _read_meta(root)]
        numbers = list(parse_lines(truth, lambda line: synsets[int(line) - 1], "the number of a synset"))
        return lambda path: numbers[int(path.stem.rpartition("_")[2]) - 1]
    if solution.is_file():
        answers = parse_lines(solution, lambda line: tuple(line.split()[0].split(",")), "an image and its synset")
        known: dict[str, str] = {entry[0]: entry[1] for entry in answers}
        return lambda path: known[path.stem]
    raise CovpoolError(
        f"{root / 'val'} has no folder per synset, so {root} must contain {DEVKIT} (the development kit) or {SOLUTION} "
        f"(Kaggle's); {describe_folder(root)}"
    )


def _read_meta(root: Path) -> list[Any]:
    """The synsets of the development kit by their number, from 1; those above the thousand classes are left out."""
    path = root / DEVKIT / "meta.mat"
    scipy_io = require("scipy.io", "train")
    with reading(path, "MATLAB's variable synsets with the fields ILSVRC2012_ID, WNID, words and num_children"):
        synsets = scipy_io.loadmat(path, squeeze_me=True)["synsets"]
        leaves = [synset for synset in synsets if int(synset["num_children"]) == 0]
        return sorted(leaves, key=lambda synset: int(synset["ILSVRC2012_ID"]))


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
    if (root / DEVKIT / "meta.mat").is_file():
        return {str(synset["WNID"]): str(synset["words"]).split(",")[0] for synset in _read_meta(root)}
    return {}
