"""Your own images: root/train/CLASS/IMAGE, and the same under root/test or root/val or both."""

from pathlib import Path

from torchvision.datasets import ImageFolder

from covpool._errors import CovpoolError
from covpool.data._images import Images, Paths
from covpool.data._settings import Data
from covpool.data.sets._layout import SUBSETS, Subsets, describe_folder

SHOWN = 5  # classes named in a message


def read(root: Path, data: Data) -> Subsets:
    """The subsets that exist. Classes are the sorted folder names; every subset must have the same."""
    found = [subset for subset in SUBSETS if (root / subset).is_dir()]
    if "train" not in found or len(found) < 2:
        raise CovpoolError(f"{root} must contain the folder train and one of test and val; {describe_folder(root)}")
    subsets = {subset: _list_images(root / subset) for subset in found}
    for subset in found[1:]:
        _check_same(root / "train", set(subsets["train"].classes), root / subset, set(subsets[subset].classes))
    return subsets


def _list_images(folder: Path) -> Images:
    if not any(path.is_dir() for path in folder.iterdir()):
        raise CovpoolError(f"{folder} must contain one folder per class; {describe_folder(folder)}")
    listed = ImageFolder(folder, allow_empty=True)
    return Images(Paths(path for path, _ in listed.samples), listed.targets, tuple(listed.classes))


def _check_same(train: Path, classes: set[str], other: Path, others: set[str]) -> None:
    for folder, missing in ((other, classes - others), (train, others - classes)):
        if missing:
            names = ", ".join(sorted(missing)[:SHOWN]) + ", ..." * (len(missing) > SHOWN)
            raise CovpoolError(
                f"{train} and {other} must have the same classes; {folder} lacks {names}: add the folder with images, "
                "or remove the class from the other set too"
            )
