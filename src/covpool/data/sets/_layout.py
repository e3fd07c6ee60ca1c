"""Finding a data set on disk: its files and lists, or a message of what was missing."""

from pathlib import Path

from covpool._errors import CovpoolError
from covpool.data._images import Images

PART_NAMES = ("train", "val", "test")
Parts = dict[str, Images]  # by those names; every set has "train" and one of the others


def base(root: Path, inner: str, *expected: str) -> Path:
    """The folder of a data set: `root` itself, or the folder `inner` of its archive inside it.

    Args:
        root: what the user gave.
        inner: the name of the archive's top folder.
        expected: what must lie in it.
    """
    found = root / inner if (root / inner).is_dir() else root
    missing = [name for name in expected if not (found / name).exists()]
    if missing:
        raise CovpoolError(f"{found} must hold {', '.join(expected)}; {', '.join(missing)} is missing: {inside(found)}")
    return found


def inside(folder: Path) -> str:
    """What lies in a folder, for a message.

    >>> inside(Path("/no/such/folder"))
    'there is no such folder'
    """
    if not folder.is_dir():
        return "there is no such folder"
    names = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir())
    return f"there lies {', '.join(names[:8])}{', ...' * (len(names) > 8)}" if names else "the folder is empty"
