"""Image files in folders of any layout."""

from pathlib import Path

from covpool._errors import CovpoolError
from covpool.data._images import UNKNOWN, Images, Paths

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
SUBSETS = {"train", "val", "test"}


def find_images(folder: Path) -> list[Path]:
    """All image files in a folder and the folders inside it, sorted by path."""
    if not folder.is_dir():
        raise CovpoolError(f"there is no folder {folder}")
    found = sorted(file for file in folder.rglob("*") if file.suffix.lower() in IMAGE_SUFFIXES)
    if not found:
        raise CovpoolError(f"there are no images in the folder {folder}")
    return found


def label_images(folder: Path) -> Images:
    """All images in a folder, with the name of their outermost folder as the class.

    Folders named train, val and test are not classes if all outermost folders have such names: the folders inside them
    are. An image outside of any folder has no class.
    """
    paths = find_images(folder)
    folders = [path.relative_to(folder).parts[:-1] for path in paths]
    if {parts[0] for parts in folders if parts} <= SUBSETS:
        folders = [parts[1:] for parts in folders]
    names = tuple(sorted({parts[0] for parts in folders if parts}))
    targets = {name: target for target, name in enumerate(names)}
    return Images(Paths(paths), [targets[parts[0]] if parts else UNKNOWN for parts in folders], names)
