"""iNaturalist 2018: 8,142 species, 437,513 / 24,426 pictures, and 149,394 whose class only the test server knows.

root/train2018.json, val2018.json, test2018.json in COCO's manner, and the pictures where their "file_name" says, below
root or root/images. Readable names come from categories.json, given out after the competition, if it is there.
"""

import json
from pathlib import Path
from typing import Any

from covpool.data.images import UNKNOWN, Images, Paths
from covpool.data.options import Data
from covpool.data.place import Parts, base


def parts(root: Path, data: Data) -> Parts:
    """train, val and, where its list is there, test; `ids` are the pictures' numbers, which a submission names."""
    needed = {"train": "train2018.json", "val": "val2018.json"}
    if data.test_on == "test":
        needed["test"] = "test2018.json"
    root = base(root, "inat2018", *needed.values())
    pictures = root / "images" if (root / "images").is_dir() else root
    lists = {part: _read(root / name) for part, name in needed.items()}
    names = _read(root / "categories.json") if (root / "categories.json").is_file() else lists["train"]["categories"]
    by_number = {category["id"]: str(category["name"]) for category in names}
    numbers = {number: position for position, number in enumerate(sorted(by_number))}
    classes = tuple(by_number[number] for number in sorted(by_number))
    return {part: _images(listing, pictures, classes, numbers) for part, listing in lists.items()}


def _images(listing: dict[str, Any], root: Path, classes: tuple[str, ...], numbers: dict[int, int]) -> Images:
    class_of = {note["image_id"]: numbers[note["category_id"]] for note in listing.get("annotations", ())}
    ids = tuple(image["id"] for image in listing["images"])
    paths = Paths(root / image["file_name"] for image in listing["images"])
    return Images(paths, [class_of.get(number, UNKNOWN) for number in ids], classes, ids)


def _read(path: Path) -> Any:
    with path.open(encoding="utf-8") as text:
        return json.load(text)
