"""A list of images with their classes, and how one of them is read."""

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
from PIL import Image, UnidentifiedImageError

from covpool._errors import CovpoolError, check_utf8

UNKNOWN = -1  # target of an image whose class is not known
SIXTEEN_BITS = ("PPM", "PNG")  # formats whose images in PIL's mode "I" range from 0 to 65535


class BrokenImage(CovpoolError):  # noqa: N818 - names the state of the image, as users see it
    """An image that cannot be read."""

    def __init__(self, path: str | Path, reason: str = "") -> None:
        super().__init__(path, reason)
        self.path, self.reason = Path(path), reason

    def __str__(self) -> str:
        return f"{self.path} cannot be read ({self.reason}): repair or remove it, or set data.broken=skip"


class Paths(Sequence[Path]):
    """Many paths in one block of memory, which worker processes share and which is fast to pickle.

    >>> Paths(["a/1.jpg", "b/2.jpg"])[1].as_posix()
    'b/2.jpg'
    """

    def __init__(self, names: Iterable[str | Path]) -> None:
        encoded = [os.fsencode(name) for name in names]
        self._names = b"".join(encoded)
        self._ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> Path: ...
    @overload
    def __getitem__(self, index: slice) -> list[Path]: ...
    def __getitem__(self, index: int | slice) -> Path | list[Path]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        return Path(os.fsdecode(self._names[self._ends[at] : self._ends[at + 1]]))


@dataclass(frozen=True, eq=False)
class Images:
    """Images on disk: one subset of a data set.

    Args:
        paths: Paths of the files.
        targets: Class of each image, as an index into `classes`; -1 = unknown.
        classes: Class names.
        ids: Numbers that identify the images in a submission to a test server; empty if there is none.
    """

    paths: Sequence[Path]
    targets: list[int]
    classes: tuple[str, ...]
    ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in self.classes:
            check_utf8("the name of a class, or of its folder,", name)

    def __len__(self) -> int:
        return len(self.paths)

    def load(self, index: int) -> Image.Image:
        """The image in RGB as it is stored: EXIF rotation is ignored, as is usual with these data sets."""
        path = self.paths[index]
        try:
            kind = os.stat(path).st_mode
            if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):  # opening a named pipe would wait for a writer
                raise CovpoolError("not a regular file")
            with Image.open(path) as image:
                return to_rgb(image)
        except Exception as error:  # PIL raises many kinds of errors for a damaged file
            raise BrokenImage(path, _reason(error)) from error

    def select(self, rows: Sequence[int]) -> "Images":
        """Return the images at some positions, in this order."""
        ids = tuple(self.ids[i] for i in rows) if self.ids else ()
        return Images(Paths(self.paths[i] for i in rows), [self.targets[i] for i in rows], self.classes, ids)

    def __add__(self, other: "Images") -> "Images":
        assert self.classes == other.classes
        paths = Paths([*self.paths, *other.paths])
        return Images(paths, self.targets + other.targets, self.classes, self.ids + other.ids)


def to_rgb(image: Image.Image) -> Image.Image:
    """The image in RGB without transparency; 16 bits are scaled to 8, which PIL would clip instead."""
    if image.mode in ("I", "F") and not _has_sixteen_bits(image):
        kind = f"{image.format or 'an image'} in PIL's mode {image.mode}"
        raise CovpoolError(f"{kind} has no defined range from black to white: save it with 8 or 16 bits")
    if _has_sixteen_bits(image):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # same colors; PIL warns about a direct conversion
    return image.convert("RGB")


def _has_sixteen_bits(image: Image.Image) -> bool:
    return image.mode.startswith("I;16") or (image.mode == "I" and image.format in SIXTEEN_BITS)


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):  # its text repeats the path
        return "not an image, or damaged"
    if isinstance(error, CovpoolError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error).partition("\n")[0] or type(error).__name__
