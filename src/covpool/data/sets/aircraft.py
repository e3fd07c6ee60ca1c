"""FGVC-Aircraft (2013b): 100 variants, 3,334 / 3,333 / 3,333 images. The usual protocol trains on train + val."""

from pathlib import Path

from covpool.data._settings import Data
from covpool.data.sets._layout import (
    SUBSETS,
    Subsets,
    find_root,
    first_word,
    make_images,
    number_classes,
    parse_lines,
    read_lines,
)


def read(root: Path, data: Data) -> Subsets:
    """train, val and test, with variants as classes."""
    lists = {subset: f"images_variant_{subset}.txt" for subset in SUBSETS}
    root = find_root(root, "fgvc-aircraft-2013b", "data") / "data"
    root = find_root(root, "", "variants.txt", *lists.values(), "images")
    targets = number_classes(read_lines(root / "variants.txt"))

    def parse(line: str) -> tuple[str, int]:
        image, variant = first_word(line)
        return f"{image}.jpg", targets[variant]

    expected = "an image and its variant, one of variants.txt"
    return {
        subset: make_images(root / "images", parse_lines(root / name, parse, expected), tuple(targets))
        for subset, name in lists.items()
    }
