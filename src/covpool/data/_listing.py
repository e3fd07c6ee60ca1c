"""Image files in folders of any layout."""

import logging
import os
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from covpool._errors import CovpoolError, printable
from covpool.data._images import UNKNOWN, Images, Paths

logger = logging.getLogger(__name__)

IMAGE_SUFFIXES = (
    *(".jpg", ".jpeg", ".jfif", ".png", ".webp", ".avif"),
    *(".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"),
)
SUBSETS = {"train", "val", "test"}
SHOWN = 5  # kinds of skipped files named in a message


def walk_images(folder: Path) -> tuple[list[str], Counter[str]]:
    """Find the image files in a folder and the folders inside it, and count the other files by suffix.

    Links to folders are followed. A folder that is reached twice, as by a link to a folder above it, is refused.
    """
    images: list[str] = []
    skipped: Counter[str] = Counter()
    seen: dict[str, str] = {}
    waiting = [os.fspath(folder)]
    while waiting:
        here = waiting.pop()
        real = os.path.realpath(here)
        if real in seen:
            raise CovpoolError(
                f"{here} and {seen[real]} are the same folder, so its images would be counted twice: remove the link"
            )
        seen[real] = here
        with os.scandir(here) as entries:
            for entry in entries:
                suffix = os.path.splitext(entry.name)[1].lower()
                if entry.is_dir():
                    waiting.append(entry.path)
                elif suffix in IMAGE_SUFFIXES:
                    images.append(entry.path)
                else:
                    skipped[suffix or "no suffix"] += 1
    return images, skipped


def report_skipped(folder: Path, skipped: Counter[str], outside: Iterable[str] = ()) -> None:
    """Log how many files of a folder are not used and why; the same message is logged once.

    Args:
        folder: The folder.
        skipped: Number of files by suffix that are not images.
        outside: Images that are in no class folder.
    """
    kinds = [f"{count} {suffix}" for suffix, count in skipped.most_common(SHOWN)]
    reasons = [f"{skipped.total()} not images ({', '.join(kinds)}{', ...' * (len(skipped) > SHOWN)})"] * bool(kinds)
    count = len(list(outside))
    reasons += [f"{count} outside of a class folder"] * bool(count)
    if reasons:
        total = skipped.total() + count
        files = "1 file" if total == 1 else f"{total} files"
        _warn_once(printable(f"{folder}: skipped {files}: {', '.join(reasons)}"))


def find_images(folder: Path) -> list[Path]:
    """All image files in a folder and the folders inside it, sorted by path. Skipped files are logged."""
    if not folder.is_dir():
        raise CovpoolError(f"there is no folder {folder}")
    found, skipped = walk_images(folder)
    if not found:
        raise CovpoolError(f"there are no images in the folder {folder}")
    report_skipped(folder, skipped)
    return sorted(map(Path, found))


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


@cache
def _warn_once(message: str) -> None:
    logger.warning("%s", message)
