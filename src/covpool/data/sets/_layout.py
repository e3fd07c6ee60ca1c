"""Finding a data set on disk, and saying what is missing."""

from pathlib import Path

from covpool._errors import CovpoolError
from covpool.data._images import Images

SUBSETS = ("train", "val", "test")
Subsets = dict[str, Images]  # by these names; every data set has "train" and at least one of the others

SHOWN = 8  # names of a folder's contents in a message


def find_root(root: Path, archive: str, *expected: str) -> Path:
    """The folder that contains a data set: `root` itself, or the folder `archive` inside it.

    Args:
        root: Folder given by the user.
        archive: Name of the top folder in the archive of the data set.
        expected: Files and folders that the data set must contain.
    """
    found = root / archive if (root / archive).is_dir() else root
    missing = [name for name in expected if not (found / name).exists()]
    if missing:
        raise CovpoolError(
            f"{found} must contain {', '.join(expected)}; {', '.join(missing)} is missing: {describe_folder(found)}"
        )
    return found


def describe_folder(folder: Path) -> str:
    """The contents of a folder, for a message.

    >>> describe_folder(Path("/no/such/folder"))
    'the folder does not exist'
    """
    if not folder.is_dir():
        return "the folder does not exist"
    names = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir())
    return f"found {', '.join(names[:SHOWN])}{', ...' * (len(names) > SHOWN)}" if names else "the folder is empty"
