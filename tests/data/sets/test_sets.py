"""Every reader lists a tiny data set in its authors' layout exactly as torchvision does, where torchvision reads it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torchvision.datasets as tv

import trees
from covpool.data._images import UNKNOWN, Images
from covpool.data._settings import Data
from covpool.data.sets._open import list_sets, open_data

ROOT = Path(__file__).parents[3]


def listed(images: Images) -> list[tuple[str, int]]:
    return [(str(path), target) for path, target in zip(images.paths, images.targets, strict=True)]


@pytest.mark.parametrize("name", list_sets())
def test_every_set_opens_in_its_authors_layout(name: str, tmp_path: Path) -> None:
    splits = open_data(Data(name=name, root=str(trees.make_set(name, tmp_path))))
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
    root = trees.make_set(name, tmp_path)
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


@pytest.mark.parametrize("truth", ["devkit", "kaggle"])
def test_imagenet_with_a_flat_val(truth: str, tmp_path: Path) -> None:
    """The numbers of the development kit are not in the order of the synsets."""
    root = trees.make_imagenet(tmp_path, names=False)
    expected = open_data(Data(name="imagenet", root=str(root)))
    synsets = sorted(path.name for path in (root / "val").iterdir())
    images = sorted((path.name, path.parent.name) for path in (root / "val").rglob("*.JPEG"))
    images = [(f"ILSVRC2012_val_{number:08}.JPEG", synset) for number, (_, synset) in enumerate(images, 1)]
    for path, (name, _) in zip(sorted((root / "val").rglob("*.JPEG")), images, strict=True):
        path.rename(root / "val" / name)
    for synset in synsets:
        (root / "val" / synset).rmdir()
    with pytest.raises(ValueError, match=r"must contain ILSVRC2012_devkit_t12/data .* or LOC_val_solution.csv"):
        open_data(Data(name="imagenet", root=str(root)))
    if truth == "kaggle":
        rows = [f"{Path(name).stem},{synset} 1 2 3 4" for name, synset in images]
        (root / "LOC_val_solution.csv").write_text("\n".join(["ImageId,PredictionString", *rows]))
    else:
        order = [*reversed(synsets), "n00001740"]  # the last is above the classes
        kind = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("num_children", "O")]
        meta = [(i, synset, f"fish {synset}, Piscis", 3 * (i > 3)) for i, synset in enumerate(order, 1)]
        folder = root / "ILSVRC2012_devkit_t12" / "data"
        folder.mkdir(parents=True)
        scipy.io.savemat(folder / "meta.mat", {"synsets": np.array(meta, dtype=kind)[:, None]})
        numbers = [str(order.index(synset) + 1) for _, synset in images]
        (folder / "ILSVRC2012_validation_ground_truth.txt").write_text("\n".join(numbers))
    found = open_data(Data(name="imagenet", root=str(root)))
    assert found.test.targets == expected.test.targets and listed(found.train) == listed(expected.train)
    assert found.test.classes == (tuple(synsets) if truth == "kaggle" else tuple(f"fish {s}" for s in synsets))


@pytest.mark.parametrize("above", [True, False])
def test_places365_in_its_easy_format(above: bool, tmp_path: Path) -> None:
    root = trees.make_folder(tmp_path / "places365_standard", classes=3)
    (root / "test").rename(root / "val")
    (root / "train.txt").write_text("class0/x.jpg\n")
    found = open_data(Data(name="places365", root=str(tmp_path if above else root)))
    assert found.train.classes == found.test.classes == ("class0", "class1", "class2")
    assert all("val" in path.parts for path in found.test.paths)


def test_cars_in_their_first_release(tmp_path: Path) -> None:
    kind = [(name, "O") for name in ("relative_im_path", "class", "test")]
    rows = [(f"car_ims/{n + 1:06}.jpg", n % 3 + 1, n // 3 % 2) for n in range(12)]
    for name, *_ in rows:
        trees.write_image(tmp_path / name)
    classes = np.array([f"Make Model {c}" for c in range(3)], dtype=object)
    contents = {"annotations": np.array(rows, dtype=kind)[None], "class_names": classes[None]}
    scipy.io.savemat(tmp_path / "cars_annos.mat", contents)
    found = open_data(Data(name="cars", root=str(tmp_path)))
    assert (len(found.train), len(found.test), found.train.classes[0]) == (6, 6, "Make Model 0")
    assert listed(found.test) == [(str(tmp_path / name), number - 1) for name, number, test in rows if test]
