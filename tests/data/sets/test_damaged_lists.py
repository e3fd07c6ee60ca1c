"""An error in a list of a data set names the file and the line."""

from pathlib import Path

import pytest

import trees
from covpool._errors import CovpoolError
from covpool.data._settings import Data
from covpool.data.sets._open import open_data

CUB, AIRCRAFT, CARS = "CUB_200_2011", "fgvc-aircraft-2013b/data", "stanford_cars"


@pytest.mark.parametrize(
    ("name", "file", "old", "new", "message"),
    [
        (
            "cub",
            f"{CUB}/images.txt",
            "2 001",
            "x 001",
            r"images.txt, line 2: expected a number and .*; got 'x 001.Bird",
        ),
        ("cub", f"{CUB}/classes.txt", "1 001.Bird_0", "1", "classes.txt, line 1: expected .*; got '1':"),
        ("cub", f"{CUB}/image_class_labels.txt", "5 2", "5 99", r"labels.txt, line 5: expected .* class.*; got '5 99'"),
        (
            "cub",
            f"{CUB}/image_class_labels.txt",
            "5 2",
            "",
            r"of the 12 images .* it lacks 1, .* 5 \(002.Bird_1/Bird",
        ),
        (
            "cub",
            f"{CUB}/train_test_split.txt",
            "12 0",
            "",
            r"split.txt must have .* it lacks 1, .* 12 \(003.Bird_2/Bird",
        ),
        (
            "cub",
            f"{CUB}/train_test_split.txt",
            "12 0",
            "12 7",
            r"split.txt, line 12: expected .*0 \(test\); got '12 7'",
        ),
        (
            "aircraft",
            f"{AIRCRAFT}/variants.txt",
            "F-16A/B",
            "F-17",
            r"_train.txt, line 3: .* variants.txt; got '.* F-16",
        ),
        (
            "aircraft",
            f"{AIRCRAFT}/images_variant_val.txt",
            " F-16A/B",
            "",
            "_val.txt, line 3: expected an image and its",
        ),
        (
            "cars",
            f"{CARS}/devkit/cars_meta.mat",
            None,
            "x",
            "cars_meta.mat must contain .* class_names; reading it",
        ),
        (
            "cars",
            f"{CARS}/devkit/cars_train_annos.mat",
            None,
            "x" * 500,
            "annos.mat must contain .* annotations .*; reading",
        ),
        (
            "places365",
            "places365_val.txt",
            "03.jpg 1",
            "03.jpg 55",
            r"_val.txt, line 4: expected .*; got '.*03.jpg 55'",
        ),
        ("places365", "categories_places365.txt", "field 0", "field", "365.txt, line 1: expected the name and the num"),
        (
            "imagenet",
            "meta.bin",
            None,
            "x",
            "meta.bin must contain torchvision's names .*, or be removed; reading it failed",
        ),
        ("inat2018", "train2018.json", "]", "", r"train2018.json must contain JSON; reading it failed .*line 1 column"),
        (
            "inat2018",
            "val2018.json",
            '_id": 1}',
            '_id": 77}',
            r"val2018.json must give .* 3 categories; got 77 for image",
        ),
        (
            "inat2018",
            "val2018.json",
            "file_name",
            "name",
            "val2018.json must contain images with .*; reading it failed with KeyErr",
        ),
        (
            "inat2018",
            "train2018.json",
            "categories",
            "x",
            "train2018.json must contain categories with .*; reading it failed",
        ),
        (
            "inat2018",
            "train2018.json",
            "annotations",
            "x",
            "every training image must have a class; .* none to .*1.jpg",
        ),
    ],
)
def test_a_damaged_list_is_named_with_its_line(
    name: str, file: str, old: str | None, new: str, message: str, tmp_path: Path
) -> None:
    place = trees.make_set(name, tmp_path) / file
    if old is None:
        place.write_text(new)
    else:
        assert old in place.read_text()
        place.write_text(place.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=message) as caught:
        open_data(Data(name=name, root=str(tmp_path)))
    assert isinstance(caught.value, CovpoolError)


def test_a_car_of_an_unknown_class_is_named(tmp_path: Path) -> None:
    root = trees.make_cars(tmp_path, classes=4)
    trees.make_cars(tmp_path / "fewer", classes=3)
    meta = Path("stanford_cars", "devkit", "cars_meta.mat")
    (tmp_path / "fewer" / meta).replace(root / meta)
    with pytest.raises(ValueError, match=r"train_annos.mat must have classes from 1 to 3; got 4 for 00004.jpg"):
        open_data(Data(name="cars", root=str(root)))
