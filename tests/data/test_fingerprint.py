"""The fingerprint of a list of images: what changes it, and what does not."""

from pathlib import Path

import pytest

from covpool.data._fingerprint import image_fingerprint
from covpool.data._images import Images

NAMES = ("a/1.png", "a/2.png", "b/1.png")


def images(root: str = "root", names: tuple[str, ...] = NAMES, targets: tuple[int, ...] = (0, 0, 1)) -> Images:
    return Images([Path(root, name) for name in names], list(targets), ("a", "b"))


def test_a_moved_data_set_has_the_same_fingerprint() -> None:
    assert image_fingerprint(images("/some/where")) == image_fingerprint(images("else/c"))


@pytest.mark.parametrize(
    "other",
    [
        images(targets=(0, 1, 1)),
        images(names=("a/1.png", "a/3.png", "b/1.png")),
        images(names=NAMES[::-1]),
        images(names=NAMES[:2], targets=(0, 0)),
        Images([Path("root", name) for name in NAMES], [0, 0, 1], ("a", "c")),
    ],
    ids=["target", "name", "order", "count", "class name"],
)
def test_other_images_have_another(other: Images) -> None:
    assert image_fingerprint(images()) != image_fingerprint(other)


def test_no_image_or_one() -> None:
    assert image_fingerprint(images(names=(), targets=())) != image_fingerprint(images(names=NAMES[:1], targets=(0,)))
