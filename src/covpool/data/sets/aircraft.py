"""FGVC-Aircraft (2013b): 100 variants, 3,334 / 3,333 / 3,333 pictures; the usual protocol trains on train + val."""

from pathlib import Path

from covpool.data._images import Images, Paths
from covpool.data._settings import Data
from covpool.data.sets._layout import PART_NAMES, Parts, base
from covpool.data.sets._lists import entries, pair, rows


def parts(root: Path, data: Data) -> Parts:
    """train, val and test of the variants."""
    lists = {part: f"images_variant_{part}.txt" for part in PART_NAMES}
    root = base(root, "fgvc-aircraft-2013b", "data") / "data"
    root = base(root, "", "variants.txt", *lists.values(), "images")
    classes = tuple(rows(root / "variants.txt"))
    numbers = {name: number for number, name in enumerate(classes)}

    def entry(row: str) -> tuple[str, int]:
        picture, variant = pair(row)
        return picture, numbers[variant]

    def part(listing: str) -> Images:
        listed = list(entries(root / listing, entry, "a picture and its variant, one of variants.txt"))
        paths = Paths(root / "images" / f"{picture}.jpg" for picture, _ in listed)
        return Images(paths, [number for _, number in listed], classes)

    return {name: part(listing) for name, listing in lists.items()}
