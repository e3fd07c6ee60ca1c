"""Tiny data sets on disk, each in its owners' layout. Every maker returns what `data.root` would be."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import scipy.io
import torch
from PIL import Image

SIZE = (40, 32)  # width, height


def picture(path: Path, *, size: tuple[int, int] = SIZE, hue: int = 0) -> Path:
    """A picture with a colour of its own (by `hue`), a gradient and a little noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(hue)
    width, height = size
    gradient = np.linspace(0, 60, width)[None, :, None] + np.linspace(0, 60, height)[:, None, None]
    pixels = gradient + rng.uniform(0, 120, 3) + rng.normal(0, 6, (height, width, 3))
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)
    return path


def break_picture(path: Path) -> None:
    """Cut a picture file in half."""
    contents = path.read_bytes()
    path.write_bytes(contents[: len(contents) // 2])


def make_folder(
    root: Path,
    classes: int = 3,
    per_class: int = 4,
    size: tuple[int, int] = SIZE,
    parts: Iterable[str] = ("train", "test"),
    suffix: str = ".png",
) -> Path:
    """root/PART/CLASS/PICTURE; pictures of a class have similar colours, no two are alike."""
    for p, part in enumerate(parts):
        for c in range(classes):
            for i in range(per_class):
                hue = 10_000 * p + 100 * c + i
                picture(root / part / f"class{c}" / f"{part}_{c}_{i}{suffix}", size=_vary(size, i), hue=hue)
    return root


def _vary(size: tuple[int, int], number: int) -> tuple[int, int]:
    """Not all pictures are alike in size: every other one is wider."""
    return (size[0] + 4 * (number % 2), size[1])


def _lines(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def make_cub(root: Path, classes: int = 3, per_class: int = 4) -> Path:
    """CUB_200_2011/: lists with running numbers; every other picture is for training."""
    base = root / "CUB_200_2011"
    names = [f"{c + 1:03}.Bird_{c}" for c in range(classes)]
    files = [(c, f"{name}/Bird_{c}_{i:04}.jpg") for c, name in enumerate(names) for i in range(per_class)]
    for number, (_, file) in enumerate(files):
        picture(base / "images" / file, hue=number)
    _lines(base / "classes.txt", (f"{c + 1} {name}" for c, name in enumerate(names)))
    _lines(base / "images.txt", (f"{n + 1} {file}" for n, (_, file) in enumerate(files)))
    _lines(base / "image_class_labels.txt", (f"{n + 1} {c + 1}" for n, (c, _) in enumerate(files)))
    _lines(base / "train_test_split.txt", (f"{n + 1} {(n + 1) % 2}" for n in range(len(files))))
    return root


def make_aircraft(root: Path, classes: int = 3, per_part: int = 2) -> Path:
    """fgvc-aircraft-2013b/data/: variants with blanks and slashes in their names."""
    base = root / "fgvc-aircraft-2013b" / "data"
    variants = [
        ("707-320", "F-16A/B", "Falcon 900", "Hawk T1")[c % 4] + " " * (c > 3) + "x" * (c // 4) for c in range(classes)
    ]
    number = 34_309
    for part in ("train", "val", "test"):
        listed = []
        for variant in variants:
            for _ in range(per_part):
                picture(base / "images" / f"{number:07}.jpg", hue=number)
                listed.append(f"{number:07} {variant}")
                number += 1
        _lines(base / f"images_variant_{part}.txt", listed)
    listed = [*(base / "images_variant_train.txt").read_text().splitlines()]
    _lines(base / "images_variant_trainval.txt", listed + (base / "images_variant_val.txt").read_text().splitlines())
    _lines(base / "variants.txt", variants)
    return root


def make_cars(root: Path, classes: int = 3, per_class: int = 2) -> Path:
    """stanford_cars/: cars_train, cars_test, the development kit, and the file with the test's classes beside it."""
    base = root / "stanford_cars"
    (base / "devkit").mkdir(parents=True)
    kind = [(name, "O") for name in ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname")]
    for part, place in (("train", "devkit/cars_train_annos.mat"), ("test", "cars_test_annos_withlabels.mat")):
        rows = []
        for n in range(classes * per_class):
            picture(base / f"cars_{part}" / f"{n + 1:05}.jpg", hue=n + 1000 * (part == "test"))
            rows.append((1, 1, 9, 9, n % classes + 1, f"{n + 1:05}.jpg"))
        scipy.io.savemat(base / place, {"annotations": np.array(rows, dtype=kind)[None]})
    names = np.array([f"Make Model {c} 2012" for c in range(classes)], dtype=object)
    scipy.io.savemat(base / "devkit" / "cars_meta.mat", {"class_names": names[None]})
    return root


def make_dtd(root: Path, classes: int = 3, per_part: int = 2) -> Path:
    """dtd/: ten splits that move the pictures round."""
    base = root / "dtd"
    parts = ("train", "val", "test")
    names = [("banded", "braided", "zigzagged", "woven")[c % 4] + str(c // 4 or "") for c in range(classes)]
    files = {name: [f"{name}/{name}_{i:04}.jpg" for i in range(3 * per_part)] for name in names}
    for number, file in enumerate(file for name in names for file in files[name]):
        picture(base / "images" / file, hue=number)
    for split in range(10):
        for p, part in enumerate(parts):
            chosen = [file for name in names for i, file in enumerate(files[name]) if (i + split) % 3 == p]
            _lines(base / "labels" / f"{part}{split + 1}.txt", chosen)
    return root


def make_indoor67(root: Path, classes: int = 3, per_class: int = 3) -> Path:
    """Images/, TrainImages.txt and TestImages.txt; the last picture of each class is for the test."""
    names = [("airport_inside", "bakery", "winecellar", "office")[c % 4] + str(c // 4 or "") for c in range(classes)]
    files = [[f"{name}/{name[:3]} {i} gif.jpg" for i in range(per_class)] for name in names]
    for number, file in enumerate(file for group in files for file in group):
        picture(root / "Images" / file, hue=number)
    _lines(root / "TrainImages.txt", (file for group in files for file in group[:-1]))
    _lines(root / "TestImages.txt", (group[-1] for group in files))
    return root


def make_inat2018(root: Path, classes: int = 3, per_class: int = 2) -> Path:
    """train2018.json, val2018.json, test2018.json (without classes) and the pictures where they say."""
    root.mkdir(parents=True, exist_ok=True)
    categories = [{"id": c, "name": f"{c:04}", "supercategory": "Aves"} for c in range(classes)]
    number = 1
    for part in ("train", "val", "test"):
        images, notes = [], []
        for c in range(classes):
            for _ in range(per_class):
                place = f"test2018/{number}.jpg" if part == "test" else f"train_val2018/Aves/{c}/{number}.jpg"
                picture(root / place, hue=number)
                images.append({"id": number, "file_name": place, "width": SIZE[0], "height": SIZE[1]})
                notes.append({"id": number, "image_id": number, "category_id": c})
                number += 1
        contents = {"images": images, "categories": categories}
        contents |= {} if part == "test" else {"annotations": notes[::-1]}  # in no particular order
        (root / f"{part}2018.json").write_text(json.dumps(contents))
    return root


def make_imagenet(root: Path, classes: int = 3, per_class: int = 2, names: bool = True) -> Path:
    """train/SYNSET and val/SYNSET, and torchvision's meta.bin with the names."""
    synsets = [f"n{1440764 + 1000 * c:08}" for c in range(classes)]
    for part in ("train", "val"):
        for c, synset in enumerate(synsets):
            for i in range(per_class):
                name = f"{synset}_{i}.JPEG" if part == "train" else f"ILSVRC2012_val_{c * per_class + i:08}.JPEG"
                picture(root / part / synset / name, hue=100 * c + i + 5000 * (part == "val"))
    if names:
        by_synset = {synset: (f"fish {c}", f"Piscis {c}") for c, synset in enumerate(synsets)}
        torch.save((by_synset, synsets), root / "meta.bin")
    return root


def make_places365(root: Path, classes: int = 3, per_class: int = 2) -> Path:
    """Lists of the development kit, pictures at 256 pixels' place."""
    names = [
        ("/a/airfield", "/a/apartment_building/outdoor", "/z/zen_garden", "/b/bar")[c % 4] + str(c // 4 or "")
        for c in range(classes)
    ]
    train, val = [], []
    for c, name in enumerate(names):
        for i in range(per_class):
            picture(root / "data_256_standard" / name[1:] / f"{i:08}.jpg", hue=100 * c + i)
            train.append(f"{name}/{i:08}.jpg {c}")
            file = f"Places365_val_{c * per_class + i:08}.jpg"
            picture(root / "val_256" / file, hue=5000 + 100 * c + i)
            val.append(f"{file} {c}")
    _lines(root / "categories_places365.txt", (f"{name} {c}" for c, name in enumerate(names)))
    _lines(root / "places365_train_standard.txt", train)
    _lines(root / "places365_val.txt", val)
    return root
