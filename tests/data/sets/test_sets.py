"""Every reader lists a tiny data set in its authors' layout exactly as torchvision does, where torchvision reads it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torchvision.datasets as tv

import trees
from covpool._errors import CovpoolError
from covpool.data._images import UNKNOWN, Images
from covpool.data._settings import Data
from covpool.data.sets._open import list_sets, open_data

ROOT = Path(__file__).parents[3]
MAKERS = {name: getattr(trees, f"make_{name}") for name in list_sets()}


def listed(images: Images) -> list[tuple[str, int]]:
    return [(str(path), target) for path, target in zip(images.paths, images.targets, strict=True)]


@pytest.mark.parametrize("name", list_sets())
def test_every_set_opens_in_its_authors_layout(name: str, tmp_path: Path) -> None:
    splits = open_data(Data(name=name, root=str(MAKERS[name](tmp_path))))
    assert splits.train.classes == splits.test.classes and len(splits.train.classes) == 3
    assert {splits.train.load(i).mode for i in range(len(splits.train))} == {"RGB"}
    assert all(path.is_file() for path in splits.test.paths)
    assert set(splits.train.targets) == {0, 1, 2}
    assert not {str(p) for p in splits.train.paths} & {str(p) for p in splits.test.paths}


@pytest.mark.parametrize("name", list_sets())
def test_every_set_is_documented(name: str) -> None:
    page = (ROOT / "docs" / "data.md").read_text()
    assert f"\n| `{name}` |" in page and f" {name}," in page.replace("\n", ",")


def test_names_are_listed_without_torch() -> None:
    code = "import sys; from covpool.data.sets import list_sets; list_sets(); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("name", ["cub", "aircraft", "cars", "dtd"])
def test_root_may_be_the_top_folder_of_the_archive(name: str, tmp_path: Path) -> None:
    root = MAKERS[name](tmp_path)
    (inner,) = root.iterdir()
    outer, direct = (open_data(Data(name=name, root=str(place))) for place in (root, inner))
    assert listed(outer.train) == listed(direct.train) and listed(outer.test) == listed(direct.test)


def test_aircraft_matches_torchvision(tmp_path: Path) -> None:
    trees.make_aircraft(tmp_path, classes=4)
    for train_on, split in (("train", "train"), ("train+val", "trainval")):
        ours = open_data(Data(name="aircraft", root=str(tmp_path), train_on=train_on))  # type: ignore[arg-type]
        for images, theirs in (
            (ours.train, tv.FGVCAircraft(tmp_path, split)),
            (ours.test, tv.FGVCAircraft(tmp_path, "test")),
        ):
            assert images.classes == tuple(theirs.classes)
            assert listed(images) == list(zip(theirs._image_files, theirs._labels, strict=True))


def test_cars_matches_torchvision(tmp_path: Path) -> None:
    ours = open_data(Data(name="cars", root=str(trees.make_cars(tmp_path))))
    for images, split in ((ours.train, "train"), (ours.test, "test")):
        theirs = tv.StanfordCars(tmp_path, split)
        assert images.classes == tuple(theirs.classes)
        assert listed(images) == [(path, int(target)) for path, target in theirs._samples]


@pytest.mark.parametrize("split", [1, 10])
def test_dtd_matches_torchvision(split: int, tmp_path: Path) -> None:
    trees.make_dtd(tmp_path / "dtd")  # torchvision expects the archive inside a folder dtd
    parts = {part: tv.DTD(tmp_path, part, split) for part in ("train", "val", "test")}
    expected = {
        part: [(str(f), n) for f, n in zip(d._image_files, d._labels, strict=True)] for part, d in parts.items()
    }
    ours = open_data(Data(name="dtd", root=str(tmp_path / "dtd"), split=split, train_on="train+val"))
    assert listed(ours.train) == expected["train"] + expected["val"] and listed(ours.test) == expected["test"]
    on_val = open_data(Data(name="dtd", root=str(tmp_path / "dtd"), split=split, test_on="val"))
    assert listed(on_val.train) == expected["train"] and listed(on_val.test) == expected["val"]
    assert ours.train.classes == tuple(parts["train"].classes)


def test_dtd_has_ten_different_splits(tmp_path: Path) -> None:
    root = str(trees.make_dtd(tmp_path))
    assert listed(open_data(Data(name="dtd", root=root)).test) != listed(
        open_data(Data(name="dtd", root=root, split=2)).test
    )
    with pytest.raises(ValueError, match=r"data.split.*got 11"):
        open_data(Data(name="dtd", root=root, split=11))


def test_places365_matches_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tv.Places365, "_check_integrity", lambda *_: True)  # skip the checksums of the real lists
    ours = open_data(Data(name="places365", root=str(trees.make_places365(tmp_path))))
    for images, split in ((ours.train, "train-standard"), (ours.test, "val")):
        assert listed(images) == tv.Places365(tmp_path, split, small=True).imgs
    assert ours.train.classes == ("airfield", "apartment_building/outdoor", "zen_garden")


def test_imagenet_matches_torchvision(tmp_path: Path) -> None:
    ours = open_data(Data(name="imagenet", root=str(trees.make_imagenet(tmp_path))))
    for images, split in ((ours.train, "train"), (ours.test, "val")):
        theirs = tv.ImageNet(tmp_path, split)
        assert listed(images) == theirs.imgs
        assert images.classes == tuple(names[0] for names in theirs.classes)


def test_imagenet_takes_names_from_the_file_that_exists(tmp_path: Path) -> None:
    data = Data(name="imagenet", root=str(trees.make_imagenet(tmp_path, names=False)))
    assert open_data(data).train.classes == ("n01440764", "n01441764", "n01442764")
    (tmp_path / "LOC_synset_mapping.txt").write_text(
        "n01440764 tench, Tinca tinca\nn01442764 great white shark, jaws\n"
    )
    assert open_data(data).train.classes == ("tench", "n01441764", "great white shark")


def test_cub_follows_its_lists(tmp_path: Path) -> None:
    splits = open_data(Data(name="cub", root=str(trees.make_cub(tmp_path))))
    assert splits.train.classes == ("Bird_0", "Bird_1", "Bird_2")
    assert [path.name for path in splits.train.paths][:3] == ["Bird_0_0000.jpg", "Bird_0_0002.jpg", "Bird_1_0000.jpg"]
    assert splits.train.targets == splits.test.targets == [0, 0, 1, 1, 2, 2]


def test_indoor67_follows_its_lists(tmp_path: Path) -> None:
    splits = open_data(Data(name="indoor67", root=str(trees.make_indoor67(tmp_path))))
    assert splits.train.classes == ("airport_inside", "bakery", "winecellar")
    assert [path.name for path in splits.test.paths] == ["air 2 gif.jpg", "bak 2 gif.jpg", "win 2 gif.jpg"]
    assert splits.train.targets == [0, 0, 1, 1, 2, 2] and splits.test.targets == [0, 1, 2]


def test_inat2018_keeps_the_ids_of_the_test_images(tmp_path: Path) -> None:
    root = str(trees.make_inat2018(tmp_path))
    held_out = open_data(Data(name="inat2018", root=root, test_on="val"))
    assert held_out.test.targets == [0, 0, 1, 1, 2, 2] and len(held_out.train) == 6
    server = open_data(Data(name="inat2018", root=root, train_on="train+val"))
    assert len(server.train) == 12 and server.train.ids == tuple(range(1, 13))
    assert server.test.ids == tuple(range(13, 19)) and set(server.test.targets) == {UNKNOWN}
    (tmp_path / "categories.json").write_text(
        '[{"id": 2, "name": "b"}, {"id": 0, "name": "c"}, {"id": 1, "name": "a"}]'
    )
    assert open_data(Data(name="inat2018", root=root)).train.classes == ("c", "a", "b")


def test_the_only_held_out_set_serves_as_test_and_val(tmp_path: Path) -> None:
    root = str(trees.make_folder(tmp_path, subsets=("train", "val")))
    assert listed(open_data(Data(root=root)).test) == listed(open_data(Data(root=root, test_on="val")).test)
    trees.make_folder(tmp_path, subsets=("test",), per_class=1)
    assert len(open_data(Data(root=root)).test) == 3 and len(open_data(Data(root=root, test_on="val")).test) == 12
    assert len(open_data(Data(root=root, train_on="train+val")).train) == 24


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "cubs"}, r"`data.name`.*did you mean 'cub'"),
        ({"root": ""}, "must be the folder.*it is empty"),
        ({"root": "/no/such/place"}, "there is no folder /no/such/place"),
        ({"name": "cub"}, r"images.txt.*is missing: found test/, train/"),
        ({"name": "aircraft"}, r"must contain data.*found test/, train/"),
        ({"split": 3}, r"must be 1 for a data set with one official split; got 3 for 'folder': leave it out, or name"),
        ({"train_on": "train+val"}, r"needs a test set besides train and val; folder at .* has train, test"),
    ],
)
def test_a_wrong_request_names_what_was_expected_and_found(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    trees.make_folder(tmp_path)
    with pytest.raises(ValueError, match=message):
        open_data(Data(**{"root": str(tmp_path)} | options))


def test_training_on_val_requires_another_test_set(tmp_path: Path) -> None:
    root = str(trees.make_dtd(tmp_path))
    with pytest.raises(ValueError, match="tested on val"):
        open_data(Data(name="dtd", root=root, train_on="train+val", test_on="val"))


def test_a_missing_or_empty_class_is_named(tmp_path: Path) -> None:
    trees.make_folder(tmp_path, subsets=("train",), classes=3)
    trees.make_folder(tmp_path, subsets=("test",), classes=2)
    with pytest.raises(ValueError, match=r"same classes; .*test lacks class2"):
        open_data(Data(root=str(tmp_path)))
    (tmp_path / "test" / "class2").mkdir()
    with pytest.raises(ValueError, match=r"the test set of .* has none of class2"):
        open_data(Data(root=str(tmp_path)))


def test_a_listed_class_without_images_is_named(tmp_path: Path) -> None:
    trees.make_cub(tmp_path)
    with (tmp_path / "CUB_200_2011" / "classes.txt").open("a") as classes:
        classes.write("4 004.Dodo\n")
    with pytest.raises(ValueError, match="has none of Dodo"):
        open_data(Data(name="cub", root=str(tmp_path)))


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
    place = MAKERS[name](tmp_path) / file
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


def test_a_folder_without_classes_or_images_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "test").mkdir()
    with pytest.raises(ValueError, match="one folder per class; the folder is empty"):
        open_data(Data(root=str(tmp_path)))
    for part in ("train", "test"):
        (tmp_path / part / "cat").mkdir()
    with pytest.raises(ValueError, match="must have images; it has none"):
        open_data(Data(root=str(tmp_path)))
    (tmp_path / "train").rename(tmp_path / "training")
    with pytest.raises(ValueError, match=r"must contain the folder train .* found test/, training/"):
        open_data(Data(root=str(tmp_path)))


def test_a_single_class_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"at least two classes; .* has only class0"):
        open_data(Data(root=str(trees.make_folder(tmp_path, classes=1))))
