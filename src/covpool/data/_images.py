"""A list of pictures with their classes, and the reading of one of them."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError

from covpool._errors import CovpoolError

UNKNOWN = -1  # the target of a picture whose class nobody told
SIXTEEN_BITS = ("PPM", "PNG")  # formats whose pictures in PIL's mode "I" go from 0 to 65535


class BrokenImage(CovpoolError):  # noqa: N818 - it names the picture's state, as users see it
    """A picture that cannot be read."""

    def __init__(self, path: str | Path, reason: str = "") -> None:
        super().__init__(path, reason)
        self.path, self.reason = Path(path), reason

    def __str__(self) -> str:
        return f'{self.path} cannot be read ({self.reason}): mend or remove it, or set data.broken = "skip"'


class Paths(Sequence[Path]):
    """Many paths in one piece of memory, which worker processes share and which is quick to send to them.

    >>> Paths(["a/1.jpg", "b/2.jpg"])[1].as_posix()
    'b/2.jpg'
    """

    def __init__(self, names: Iterable[str | Path]) -> None:
        encoded = [os.fsencode(name) for name in names]
        self._names = b"".join(encoded)
        self._ends = torch.tensor([0, *map(len, encoded)]).cumsum(0)

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
        return Path(os.fsdecode(self._names[int(self._ends[at]) : int(self._ends[at + 1])]))


@dataclass(frozen=True, eq=False)
class Images:
    """Pictures on disk, one part of a data set.

    Args:
        paths: of the files.
        targets: the class of each, an index into `classes`; -1 = unknown.
        classes: their names.
        ids: the owners' numbers of the pictures, where a submission needs them; empty otherwise.
    """

    paths: Sequence[Path]
    targets: list[int]
    classes: tuple[str, ...]
    ids: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.paths)

    def load(self, index: int) -> Image.Image:
        """The picture in RGB, as it is stored (no rotation by EXIF, as is the custom of these data sets)."""
        path = self.paths[index]
        try:
            with Image.open(path) as image:
                if _range_is_known(image):
                    return _rgb(image)
                kind = f"{image.format} in PIL's mode {image.mode}"
        except Exception as error:  # of a damaged file PIL complains in many ways
            raise BrokenImage(path, _reason(error)) from error
        raise BrokenImage(path, f"{kind} has no known range from black to white: save it with 8 or 16 bits")

    def __add__(self, other: "Images") -> "Images":
        assert self.classes == other.classes
        paths = Paths([*self.paths, *other.paths])
        return Images(paths, self.targets + other.targets, self.classes, self.ids + other.ids)


def _range_is_known(image: Image.Image) -> bool:
    """Whether one knows which number is white: not of 32-bit integers, nor of floats."""
    return image.mode not in ("I", "F") or _has_sixteen_bits(image)


def _has_sixteen_bits(image: Image.Image) -> bool:
    return image.mode.startswith("I;16") or (image.mode == "I" and image.format in SIXTEEN_BITS)


def _rgb(image: Image.Image) -> Image.Image:
    """The picture in RGB, without its transparency; 16 bits are scaled to 8, where PIL alone would cut them off."""
    if _has_sixteen_bits(image):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # the same colours, but PIL warns of the direct way
    return image.convert("RGB")


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):  # whose words repeat the path
        return "not a picture, or damaged"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return f"{type(error).__name__}: {error}".split("\n")[0]
