"""FGVC-Aircraft (2013b): 100 variants, 3,334 / 3,333 / 3,333 pictures; the usual protocol trains on train + val."""

from pathlib import Path

from covpool.data.images import Images, Paths
from covpool.data.options import Data
from covpool.data.place import PART_NAMES, Parts, base, rows


def parts(root: Path, data: Data) -> Parts:
    """train, val and test of the variants."""
    lists = {part: f"images_variant_{part}.txt" for part in PART_NAMES}
    root = base(root, "fgvc-aircraft-2013b", "data") / "data"
    root = base(root, "", "variants.txt", *lists.values(), "images")
    classes = tuple(rows(root / "variants.txt"))
    numbers = {name: number for number, name in enumerate(classes)}

    def part(listing: str) -> Images:
        listed = [row.split(maxsplit=1) for row in rows(root / listing)]
        paths = Paths(root / "images" / f"{picture}.jpg" for picture, _ in listed)
        return Images(paths, [numbers[variant] for _, variant in listed], classes)

    return {name: part(listing) for name, listing in lists.items()}
