"""A list of images, and reading one of them."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import trees
from covpool.data._images import BrokenImage, Images, Paths


def test_paths_are_a_sequence_of_paths() -> None:
    names = ["a/ä 1.jpg", "b.png", "c/d/e.jpg", "b.png"]
    paths = Paths(names)
    assert list(paths) == [Path(name) for name in names] == [*paths[:2], *paths[2:]]
    assert paths[-1] == Path("b.png") and len(paths) == 4 and paths[::-2] == [Path("b.png"), Path("b.png")]
    with pytest.raises(IndexError):
        paths[4]
    assert list(pickle.loads(pickle.dumps(paths))) == list(paths)
    assert list(Paths([])) == []


def test_every_file_becomes_rgb(tmp_path: Path) -> None:
    gray = np.arange(12, dtype=np.uint8).reshape(3, 4)
    paths = [tmp_path / "gray.png", tmp_path / "alpha.png", tmp_path / "palette.gif"]
    Image.fromarray(gray).save(paths[0])
    Image.fromarray(np.dstack([gray, gray, gray, gray])).save(paths[1])
    Image.fromarray(gray).convert("P").save(paths[2])
    images = Images(paths, [0, 0, 0], ("one",))
    for i in range(3):
        assert np.array_equal(np.asarray(images.load(i)), np.dstack([gray] * 3))


def test_sixteen_bits_are_scaled_to_eight(tmp_path: Path) -> None:
    gray = np.arange(12, dtype=np.uint16).reshape(3, 4) * 5000
    for name in ("gray.png", "gray.tif", "gray.pgm"):
        Image.fromarray(gray).save(tmp_path / name)
        found = np.asarray(Images([tmp_path / name], [0], ("one",)).load(0))
        assert np.array_equal(found, np.dstack([(gray / 65536 * 256).astype(np.uint8)] * 3))


@pytest.mark.parametrize("kind", [np.int32, np.float32])
def test_images_without_a_defined_white_are_rejected(kind: type, tmp_path: Path) -> None:
    path = tmp_path / "gray.tif"
    Image.fromarray(np.ones((3, 4), kind)).save(path)
    with pytest.raises(BrokenImage, match=r"gray.tif cannot be read \(TIFF in PIL's mode . has no defined range"):
        Images([path], [0], ("one",)).load(0)


def test_a_palette_with_transparency_is_read_without_a_warning(tmp_path: Path) -> None:
    gray = np.arange(12, dtype=np.uint8).reshape(3, 4)
    path = tmp_path / "palette.png"
    Image.fromarray(gray).convert("P").save(path, transparency=bytes(range(256)))
    assert np.array_equal(np.asarray(Images([path], [0], ("one",)).load(0)), np.dstack([gray] * 3))


@pytest.mark.parametrize("kind", ["truncated jpeg", "truncated png", "text", "empty", "missing", "folder"])
def test_a_broken_image_is_named_with_its_reason(kind: str, tmp_path: Path) -> None:
    path = tmp_path / ("image.png" if kind == "truncated png" else "image.jpg")
    if kind.startswith("truncated"):
        trees.break_image(trees.write_image(path))
    elif kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_text("not an image" if kind == "text" else "")
    with pytest.raises(BrokenImage, match=r"image\..* cannot be read \(.+\): repair .* data.broken") as caught:
        Images([path], [0], ("one",)).load(0)
    assert caught.value.path == path and caught.value.reason and "Error:" not in caught.value.reason
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, ValueError) and str(again) == str(caught.value)


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_device_named_like_an_image_does_not_hang(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(BrokenImage, match="not a regular file"):
        Images([path], [0], ("one",)).load(0)


def test_images_are_joined_in_order() -> None:
    one = Images([Path("a")], [0], ("x", "y"), (7,))
    two = Images(Paths(["b", "c"]), [1, 0], ("x", "y"), (8, 9))
    both = one + two
    assert list(both.paths) == [Path("a"), Path("b"), Path("c")]
    assert (both.targets, both.ids, len(both)) == ([0, 1, 0], (7, 8, 9), 3)
