"""Short marks of a list of images, the same wherever the data set is stored."""

import hashlib
import os
from typing import Literal

from covpool.data._images import Images

FileDetail = Literal["names", "sizes", "contents"]


def image_fingerprint(images: Images) -> str:
    """Hash the paths of images below their common folder, their targets and the class names.

    >>> from pathlib import Path
    >>> names = ("cat/1.png", "dog/2.png")
    >>> first, moved = (Images([Path(root, n) for n in names], [0, 1], ("cat", "dog")) for root in ("a", "b/c"))
    >>> image_fingerprint(first) == image_fingerprint(moved)
    True
    """
    digest = hashlib.sha256(repr((len(images), images.classes)).encode())
    for name, target in zip(_names(images), images.targets, strict=True):
        digest.update(b"%s\0%d\n" % (name, target))
    return digest.hexdigest()[:32]


def file_fingerprints(images: Images, detail: FileDetail) -> dict[str, str]:
    """Hash the paths of images below their common folder ("names"), their targets ("targets"), and what `detail` adds.

    Args:
        images: The images.
        detail: "names" adds nothing; "sizes" the numbers of bytes; "contents" all bytes, which reads every file.
    """
    digests = {"names": hashlib.sha256(), "targets": hashlib.sha256(repr((images.targets, images.classes)).encode())}
    for name in _names(images):
        digests["names"].update(name + b"\n")
    if detail != "names":
        digests[detail] = hashlib.sha256()
        for path in images.paths:
            digests[detail].update(_mark(path, detail))
    return {kind: digest.hexdigest()[:32] for kind, digest in digests.items()}


def _names(images: Images) -> list[bytes]:
    """The paths below the folder that all have in common."""
    names = [os.fsencode(path) for path in images.paths]
    start = len(os.path.commonpath([min(names), max(names)])) if names else 0
    return [name[start:] for name in names]


def _mark(path: os.PathLike[str], detail: FileDetail) -> bytes:
    """The number of bytes of a file, or a hash of its contents."""
    try:
        if detail == "sizes":
            return b"%d\n" % os.stat(path).st_size
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:  # a missing file, which a recipe may skip
        return b"missing\n"
