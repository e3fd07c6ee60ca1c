"""A folder of one's own: root/train/CLASS/PICTURE and the same under root/test or root/val (or both)."""

from pathlib import Path

from torchvision.datasets import ImageFolder

from covpool._errors import CovpoolError
from covpool.data._images import Images, Paths
from covpool.data._settings import Data
from covpool.data.sets._layout import PART_NAMES, Parts, inside


def parts(root: Path, data: Data) -> Parts:
    """Classes are the names of the folders in train/, sorted; the other parts must have the same."""
    there = [name for name in PART_NAMES if (root / name).is_dir()]
    if "train" not in there or len(there) < 2:
        raise CovpoolError(f"{root} must hold the folder train and one of test and val; {inside(root)}")
    found = {name: _images(root / name) for name in there}
    for name in there[1:]:
        _check_same(root / "train", found["train"].classes, root / name, found[name].classes)
    return found


def _images(root: Path) -> Images:
    if not any(path.is_dir() for path in root.iterdir()):
        raise CovpoolError(f"{root} must hold one folder per class; {inside(root)}")
    listing = ImageFolder(root, allow_empty=True)
    return Images(Paths(path for path, _ in listing.samples), listing.targets, tuple(listing.classes))


def _check_same(one: Path, classes: tuple[str, ...], other: Path, others: tuple[str, ...]) -> None:
    for place, missing in ((other, set(classes) - set(others)), (one, set(others) - set(classes))):
        if missing:
            names = ", ".join(sorted(missing)[:5]) + ", ..." * (len(missing) > 5)
            raise CovpoolError(
                f"{one} and {other} must have the same classes; {place} lacks {names}: add the folder with pictures, "
                "or remove the class from the other part too"
            )
