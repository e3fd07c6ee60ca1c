from collections.abc import Callable
from pathlib import Path

import pytest

from covpool import CovpoolError
from covpool.data import Data, FileDetail
from covpool.data._images import Images
from covpool.data.sets._open import Splits, open_data
from covpool.engine.training._trained_on import check_same_data, describe_data


def splits(classes: tuple[str, ...] = ("cat", "dog"), *, train: int = 4, test: int = 2) -> Splits:
    parts = (Images([Path("x.png")] * count, [0] * count, classes) for count in (train, test))
    return Splits(*parts)


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (splits(("cat", "fox")), "the class 'dog' is missing, the class 'fox' is new;"),
        (splits(("cat", "dog", "fox")), "the class 'fox' is new;"),
        (splits(("dog", "cat")), "the order of the classes is different;"),
        (splits(train=3, test=1), "3 training images instead of 4, 1 test images instead of 2;"),
    ],
)
def test_differences_are_named(now: Splits, said: str) -> None:
    with pytest.raises(ValueError, match=f"the images in ROOT are not those the run was started with: {said}"):
        check_same_data(describe_data(splits()), now, "ROOT")


def tree(root: Path) -> Splits:
    """The same images wherever `root` is."""
    for part in ("train", "test"):
        for name in ("cat", "dog"):
            (root / part / name).mkdir(parents=True, exist_ok=True)
            for i in range(3):
                (root / part / name / f"{i}.png").write_bytes(b"x" * (10 + i))
    return open_data(Data(root=str(root)))


@pytest.mark.parametrize(
    ("detail", "change", "said"),
    [
        ("names", lambda r: (r / "train/cat/0.png").rename(r / "train/cat/9.png"), "the file names of the training"),
        ("names", lambda r: (r / "test/cat/0.png").rename(r / "test/dog/9.png"), "the file names of the test images"),
        ("sizes", lambda r: (r / "train/cat/0.png").write_bytes(b"longer" * 9), "training images have another size"),
        ("contents", lambda r: (r / "test/cat/0.png").write_bytes(b"y" * 10), "test images have other contents"),
        ("contents", lambda r: (r / "test/cat/0.png").unlink(), "5 test images instead of 6"),
    ],
)
def test_moved_renamed_and_replaced_images_are_found(
    tmp_path: Path, detail: FileDetail, change: Callable[[Path], object], said: str
) -> None:
    before = describe_data(tree(tmp_path / "data"), detail)
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    root = tmp_path / "elsewhere"
    check_same_data(before, open_data(Data(root=str(root))), "ROOT")
    change(root)
    with pytest.raises(ValueError, match=said):
        check_same_data(before, open_data(Data(root=str(root))), "ROOT")


def test_images_that_trade_classes_are_found(tmp_path: Path) -> None:
    """A list gives two images of the same size each other's class."""
    first = tree(tmp_path)
    traded = [first.train.targets[-1], *first.train.targets[1:-1], first.train.targets[0]]
    now = Splits(Images(first.train.paths, traded, first.train.classes), first.test)
    with pytest.raises(ValueError, match="some training images have another class;"):
        check_same_data(describe_data(first, "contents"), now, "ROOT")


def test_a_missing_file_is_a_difference(tmp_path: Path) -> None:
    first = tree(tmp_path)
    for detail in ("sizes", "contents"):
        before = describe_data(first, detail)
        (tmp_path / "train" / "cat" / "0.png").rename(tmp_path / "kept")
        with pytest.raises(ValueError, match="they were replaced"):
            check_same_data(before, first, "ROOT")
        (tmp_path / "kept").rename(tmp_path / "train" / "cat" / "0.png")


def test_a_validation_set_that_is_gone_is_named(tmp_path: Path) -> None:
    found = tree(tmp_path)
    before = describe_data(Splits(found.train, found.test, validation=found.test))
    with pytest.raises(ValueError, match="0 validation images instead of 6"):
        check_same_data(before, found, "ROOT")


def test_descriptions_without_fingerprints_pass() -> None:
    old = {"classes": ["cat", "dog"], "images": {"training": 4, "test": 2}}
    check_same_data(old, splits(), "ROOT")


@pytest.mark.parametrize("value", [None, 1, [1], {"training": 1}])
@pytest.mark.parametrize("part", ["classes", "images", "detail", "files"])
def test_a_damaged_description_is_refused(part: str, value: object) -> None:
    with pytest.raises(CovpoolError, match=r"so it is damaged|are not those the run was started with"):
        check_same_data({**describe_data(splits()), part: value}, splits(), "ROOT")
    with pytest.raises(CovpoolError, match="so it is damaged"):
        check_same_data({"classes": 1}, splits(), "ROOT")


def test_same_or_unknown_data_pass() -> None:
    check_same_data(describe_data(splits()), splits(), "ROOT")
    check_same_data({}, splits(), "ROOT")
