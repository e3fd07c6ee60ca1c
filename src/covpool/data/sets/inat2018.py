"""iNaturalist 2018: 8,142 species, 437,513 / 24,426 images, and 149,394 test images whose classes are not public.

root/train2018.json, val2018.json and test2018.json in COCO's format, and the images at their "file_name", below root or
root/images. Readable names come from categories.json, published after the competition, if it exists.
"""

import json
from pathlib import Path
from typing import Any

from covpool._errors import CovpoolError
from covpool.data._images import UNKNOWN, Images, Paths
from covpool.data._settings import Data
from covpool.data.sets._layout import REPAIR, Subsets, find_root, number_classes, reading


def read(root: Path, data: Data) -> Subsets:
    """train, val and, if it is tested on, test; `ids` are the image numbers that a submission needs."""
    needed = {"train": "train2018.json", "val": "val2018.json"}
    if data.test_on == "test":
        needed["test"] = "test2018.json"
    root = find_root(root, "inat2018", *needed.values())
    folder = root / "images" if (root / "images").is_dir() else root
    lists = {subset: _read_json(root / name) for subset, name in needed.items()}
    named = root / "categories.json"
    names = _names(named, _read_json(named)) if named.is_file() else _names(root / needed["train"], lists["train"])
    return {subset: _images(root / needed[subset], contents, folder, names) for subset, contents in lists.items()}


def _names(path: Path, contents: Any) -> dict[int, str]:
    """The names of the categories by their numbers, in order."""
    with reading(path, 'categories with "id" and "name"'):
        categories = contents["categories"] if isinstance(contents, dict) else contents
        return dict(sorted((category["id"], str(category["name"])) for category in categories))


def _images(path: Path, contents: Any, folder: Path, names: dict[int, str]) -> Images:
    position = number_classes(names)
    with reading(path, 'images with "id" and "file_name", annotations with "image_id" and "category_id"'):
        ids = tuple(image["id"] for image in contents["images"])
        paths = Paths(folder / image["file_name"] for image in contents["images"])
        category_of = {note["image_id"]: note["category_id"] for note in contents.get("annotations", ())}
    for image, category in category_of.items():
        if category not in position:
            raise CovpoolError(
                f"{path} must give every image one of the {len(names)} categories; got {category} for image "
                f"{image}: {REPAIR}"
            )
    targets = [position[category_of[number]] if number in category_of else UNKNOWN for number in ids]
    return Images(paths, targets, tuple(names.values()), ids)


def _read_json(path: Path) -> Any:
    with reading(path, "JSON"), path.open(encoding="utf-8") as text:
        return json.load(text)
