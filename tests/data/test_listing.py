"""Image files in folders of any layout."""

import os
from pathlib import Path

import pytest
from PIL import Image
from torchvision.datasets import ImageFolder

from covpool import CovpoolError
from covpool.data import Data, find_images, label_images
from covpool.data.sets import open_data
from trees import make_folder, write_image

LATIN = os.fsdecode("b\u00e9".encode("latin-1"))  # a name of a file that is not UTF-8


def test_folders_inside_train_and_test_are_classes(tmp_path: Path) -> None:
    images = label_images(make_folder(tmp_path, classes=2, per_class=3))
    assert images.classes == ("class0", "class1") and sorted(images.targets) == [0] * 6 + [1] * 6


def test_outermost_folders_are_classes(tmp_path: Path) -> None:
    for name in ("train/1.png", "bus/2.JPG", "bus/red/3.png", "4.png"):
        write_image(tmp_path / name)
    images = label_images(tmp_path)
    found = {path.name: target for path, target in zip(images.paths, images.targets, strict=True)}
    assert images.classes == ("bus", "train") and found == {"1.png": 1, "2.JPG": 0, "3.png": 0, "4.png": -1}


def test_images_outside_of_folders_have_no_class(tmp_path: Path) -> None:
    write_image(tmp_path / "1.png")
    (tmp_path / "notes.txt").write_text("no image")
    assert label_images(tmp_path).targets == [-1] and label_images(tmp_path).classes == ()


def test_folders_without_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CovpoolError, match="there are no images in the folder"):
        find_images(tmp_path)
    with pytest.raises(CovpoolError, match="there is no folder"):
        find_images(tmp_path / "none")


def test_skipped_files_are_counted_once_with_their_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make_folder(tmp_path, classes=2, per_class=2)
    for name in ("class0/notes.txt", "class0/more.txt", "class1/raw.heic", "class1/\x1b[2J.\x1b[2J"):
        (tmp_path / "train" / name).write_text("no image")
    write_image(tmp_path / "train" / "lost.png")
    for _ in range(2):
        assert len(open_data(Data(root=str(tmp_path))).train) == 4
    (message,) = caplog.messages
    assert "skipped 5 files: 4 not images (2 .txt, 1 .heic, 1 .\\x1b[2j), 1 outside of a class folder" in message


@pytest.mark.parametrize("suffix", [".gif", ".jfif", ".avif"])
def test_less_common_formats_are_images_of_a_training_set(suffix: str, tmp_path: Path) -> None:
    make_folder(tmp_path, classes=2, per_class=2)
    image = write_image(tmp_path / "train" / "class0" / "other.png")
    with Image.open(image) as opened:
        opened.convert("RGB").save(image.with_suffix(suffix), format={".jfif": "JPEG"}.get(suffix))
    train = open_data(Data(root=str(tmp_path))).train
    assert len(train) == 6 and train.load([path.suffix for path in train.paths].index(suffix)).mode == "RGB"


@pytest.mark.parametrize("opened", ["set", "set/test"])
def test_names_that_no_file_can_hold_are_refused(opened: str, tmp_path: Path) -> None:
    """A checkpoint with such a class name could not be written, after all of the training."""
    root = make_folder(tmp_path / "set", classes=2, per_class=2)
    for subset in ("train", "test"):
        (root / subset / "class0").rename(root / subset / LATIN)
    with pytest.raises(CovpoolError, match=r"the name of a class, or of its folder, must be UTF-8.*got 'b\\udce9'"):
        open_data(Data(root=str(tmp_path / opened)))
    with pytest.raises(CovpoolError, match=r"`data.root` must be UTF-8 text"):
        Data(root=str(tmp_path / LATIN))


@pytest.mark.parametrize("target", [".", "..", "../class1", "../../train"])
def test_links_that_count_images_twice_are_refused(target: str, tmp_path: Path) -> None:
    root = make_folder(tmp_path, classes=2, per_class=2)
    (root / "train" / "class0" / "link").symlink_to(target)
    with pytest.raises(CovpoolError, match=r"are the same folder, so its images would be counted twice: remove"):
        open_data(Data(root=str(root)))
    with pytest.raises(CovpoolError, match="are the same folder"):
        find_images(root)


def test_a_link_to_itself_is_one_line(tmp_path: Path) -> None:
    root = make_folder(tmp_path, classes=2, per_class=2)
    (root / "train" / "class0" / "link").symlink_to("link")
    with pytest.raises(OSError, match="Too many levels"):
        open_data(Data(root=str(root)))


def test_a_link_to_a_folder_elsewhere_is_followed(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set", classes=2, per_class=2)
    (root / "train" / "class0").rename(tmp_path / "elsewhere")
    (root / "train" / "class0").symlink_to(tmp_path / "elsewhere")
    assert open_data(Data(root=str(root))).train.targets == [0, 0, 1, 1]


def test_images_are_listed_in_torchvision_s_order(tmp_path: Path) -> None:
    for name in ("b/2.png", "b/a/1.png", "b/a-c/1.png", "b/1.png", "a-b/1.png", "a/z.png", "a/B/x.jpeg"):
        write_image(tmp_path / "train" / name)
        write_image(tmp_path / "test" / name)
    train, expected = open_data(Data(root=str(tmp_path))).train, ImageFolder(tmp_path / "train")
    assert [(str(path), target) for path, target in zip(train.paths, train.targets, strict=True)] == expected.samples
    assert list(train.classes) == expected.classes
