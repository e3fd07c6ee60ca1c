"""iNaturalist 2018: 8,142 species, 437,513 / 24,426 pictures, and 149,394 whose class only the test server knows.

root/train2018.json, val2018.json, test2018.json in COCO's manner, and the pictures where their "file_name" says, below
root or root/images. Readable names come from categories.json, given out after the competition, if it is there.
"""

import json
from pathlib import Path
from typing import Any

from covpool._errors import CovpoolError
from covpool.data._images import UNKNOWN, Images, Paths
from covpool.data._settings import Data
from covpool.data.sets._layout import Parts, base
from covpool.data.sets._lists import AGAIN, reading


def parts(root: Path, data: Data) -> Parts:
    """train, val and, where its list is there, test; `ids` are the pictures' numbers, which a submission names."""
    needed = {"train": "train2018.json", "val": "val2018.json"}
    if data.test_on == "test":
        needed["test"] = "test2018.json"
    root = base(root, "inat2018", *needed.values())
    pictures = root / "images" if (root / "images").is_dir() else root
    lists = {part: _read(root / name) for part, name in needed.items()}
    named = root / "categories.json"
    names = _names(named, _read(named)) if named.is_file() else _names(root / needed["train"], lists["train"])
    return {part: _images(root / needed[part], listing, pictures, names) for part, listing in lists.items()}


def _names(path: Path, contents: Any) -> dict[int, str]:
    """Of the categories, by their numbers, in order."""
    with reading(path, 'categories with "id" and "name"'):
        categories = contents["categories"] if isinstance(contents, dict) else contents
        return dict(sorted((category["id"], str(category["name"])) for category in categories))


def _images(path: Path, contents: Any, root: Path, names: dict[int, str]) -> Images:
    positions = {number: position for position, number in enumerate(names)}
    with reading(path, 'images with "id" and "file_name", annotations with "image_id" and "category_id"'):
        ids = tuple(image["id"] for image in contents["images"])
        paths = Paths(root / image["file_name"] for image in contents["images"])
        category_of = {note["image_id"]: note["category_id"] for note in contents.get("annotations", ())}
    for picture, category in category_of.items():
        if category not in positions:
            raise CovpoolError(
                f"{path} must give every picture one of the {len(names)} categories; got {category} for picture "
                f"{picture}: {AGAIN}"
            )
    targets = [positions[category_of[number]] if number in category_of else UNKNOWN for number in ids]
    return Images(paths, targets, tuple(names.values()), ids)


def _read(path: Path) -> Any:
    with reading(path, "JSON"), path.open(encoding="utf-8") as text:
        return json.load(text)
