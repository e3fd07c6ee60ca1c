"""A short mark of a list of images, the same wherever the data set is stored."""

import hashlib
import os

from covpool.data._images import Images


def image_fingerprint(images: Images) -> str:
    """Hash the paths of images below their common folder, their targets and the class names.

    >>> from pathlib import Path
    >>> names = ("cat/1.png", "dog/2.png")
    >>> first, moved = (Images([Path(root, n) for n in names], [0, 1], ("cat", "dog")) for root in ("a", "b/c"))
    >>> image_fingerprint(first) == image_fingerprint(moved)
    True
    """
    digest = hashlib.sha256(repr((len(images), images.classes)).encode())
    names = [os.fsencode(path) for path in images.paths]
    start = len(os.path.commonpath([min(names), max(names)])) if names else 0  # the folder that all have in common
    for name, target in zip(names, images.targets, strict=True):
        digest.update(b"%s\0%d\n" % (name[start:], target))
    return digest.hexdigest()[:32]
