"""Tiny data sets on disk, each in its authors' layout. `make_NAME` returns the value of `data.root`."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import scipy.io
import torch
from PIL import Image

SIZE = (40, 32)  # width, height


def write_image(path: Path, *, size: tuple[int, int] = SIZE, hue: int = 0) -> Path:
    """Write an image with a color that depends on `hue`, a gradient and a little noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(hue)
    width, height = size
    gradient = np.linspace(0, 60, width)[None, :, None] + np.linspace(0, 60, height)[:, None, None]
    pixels = gradient + rng.uniform(0, 120, 3) + rng.normal(0, 6, (height, width, 3))
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)
    return path


def break_image(path: Path) -> None:
    """Cut an image file in half."""
    contents = path.read_bytes()
    path.write_bytes(contents[: len(contents) // 2])


def make_set(name: str, root: Path) -> Path:
    """The data set `name`, with three classes."""
    made: Path = globals()[f"make_{name}"](root)
    return made


def make_folder(
    root: Path,
    classes: int = 3,
    per_class: int = 4,
    size: tuple[int, int] = SIZE,
    subsets: Iterable[str] = ("train", "test"),
    suffix: str = ".png",
) -> Path:
    """root/SUBSET/CLASS/IMAGE; images of a class have similar colors, and no two images are equal."""
    for s, subset in enumerate(subsets):
        for c in range(classes):
            for i in range(per_class):
                hue = 10_000 * s + 100 * c + i
                write_image(root / subset / f"class{c}" / f"{subset}_{c}_{i}{suffix}", size=_vary(size, i), hue=hue)
    return root


def _vary(size: tuple[int, int], number: int) -> tuple[int, int]:
    """Images differ in size: every other one is wider."""
    return (size[0] + 4 * (number % 2), size[1])


def _lines(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def make_cub(root: Path, classes: int = 3, per_class: int = 4) -> Path:
    """CUB_200_2011/: numbered lists; every other image is for training."""
    base = root / "CUB_200_2011"
    names = [f"{c + 1:03}.Bird_{c}" for c in range(classes)]
    files = [(c, f"{name}/Bird_{c}_{i:04}.jpg") for c, name in enumerate(names) for i in range(per_class)]
    for number, (_, file) in enumerate(files):
        write_image(base / "images" / file, hue=number)
    _lines(base / "classes.txt", (f"{c + 1} {name}" for c, name in enumerate(names)))
    _lines(base / "images.txt", (f"{n + 1} {file}" for n, (_, file) in enumerate(files)))
    _lines(base / "image_class_labels.txt", (f"{n + 1} {c + 1}" for n, (c, _) in enumerate(files)))
    _lines(base / "train_test_split.txt", (f"{n + 1} {(n + 1) % 2}" for n in range(len(files))))
    return root


def make_aircraft(root: Path, classes: int = 3, per_subset: int = 2) -> Path:
    """fgvc-aircraft-2013b/data/: variants with spaces and slashes in their names."""
    base = root / "fgvc-aircraft-2013b" / "data"
    variants = [
        ("707-320", "F-16A/B", "Falcon 900", "Hawk T1")[c % 4] + " " * (c > 3) + "x" * (c // 4) for c in range(classes)
    ]
    number = 34_309
    for subset in ("train", "val", "test"):
        listed = []
        for variant in variants:
            for _ in range(per_subset):
                write_image(base / "images" / f"{number:07}.jpg", hue=number)
                listed.append(f"{number:07} {variant}")
                number += 1
        _lines(base / f"images_variant_{subset}.txt", listed)
    listed = [*(base / "images_variant_train.txt").read_text().splitlines()]
    _lines(base / "images_variant_trainval.txt", listed + (base / "images_variant_val.txt").read_text().splitlines())
    _lines(base / "variants.txt", variants)
    return root


def make_cars(root: Path, classes: int = 3, per_class: int = 2) -> Path:
    """stanford_cars/: cars_train, cars_test, devkit, and the file with the test classes next to it."""
    base = root / "stanford_cars"
    (base / "devkit").mkdir(parents=True)
    kind = [(name, "O") for name in ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname")]
    for subset, place in (("train", "devkit/cars_train_annos.mat"), ("test", "cars_test_annos_withlabels.mat")):
        rows = []
        for n in range(classes * per_class):
            write_image(base / f"cars_{subset}" / f"{n + 1:05}.jpg", hue=n + 1000 * (subset == "test"))
            rows.append((1, 1, 9, 9, n % classes + 1, f"{n + 1:05}.jpg"))
        scipy.io.savemat(base / place, {"annotations": np.array(rows, dtype=kind)[None]})
    names = np.array([f"Make Model {c} 2012" for c in range(classes)], dtype=object)
    scipy.io.savemat(base / "devkit" / "cars_meta.mat", {"class_names": names[None]})
    return root


def make_dtd(root: Path, classes: int = 3, per_subset: int = 2) -> Path:
    """dtd/: ten splits that rotate the images through the subsets."""
    base = root / "dtd"
    subsets = ("train", "val", "test")
    names = [("banded", "braided", "zigzagged", "woven")[c % 4] + str(c // 4 or "") for c in range(classes)]
    files = {name: [f"{name}/{name}_{i:04}.jpg" for i in range(3 * per_subset)] for name in names}
    for number, file in enumerate(file for name in names for file in files[name]):
        write_image(base / "images" / file, hue=number)
    for split in range(10):
        for s, subset in enumerate(subsets):
            chosen = [file for name in names for i, file in enumerate(files[name]) if (i + split) % 3 == s]
            _lines(base / "labels" / f"{subset}{split + 1}.txt", chosen)
    return root


def make_indoor67(root: Path, classes: int = 3, per_class: int = 3) -> Path:
    """Images/, TrainImages.txt and TestImages.txt; the last image of each class is for testing."""
    names = [("airport_inside", "bakery", "winecellar", "office")[c % 4] + str(c // 4 or "") for c in range(classes)]
    files = [[f"{name}/{name[:3]} {i} gif.jpg" for i in range(per_class)] for name in names]
    for number, file in enumerate(file for group in files for file in group):
        write_image(root / "Images" / file, hue=number)
    _lines(root / "TrainImages.txt", (file for group in files for file in group[:-1]))
    _lines(root / "TestImages.txt", (group[-1] for group in files))
    return root


def make_inat2018(root: Path, classes: int = 3, per_class: int = 2) -> Path:
    """train2018.json, val2018.json, test2018.json (without classes), and the images at their "file_name"."""
    root.mkdir(parents=True, exist_ok=True)
    categories = [{"id": c, "name": f"{c:04}", "supercategory": "Aves"} for c in range(classes)]
    number = 1
    for subset in ("train", "val", "test"):
        images, notes = [], []
        for c in range(classes):
            for _ in range(per_class):
                place = f"test2018/{number}.jpg" if subset == "test" else f"train_val2018/Aves/{c}/{number}.jpg"
                write_image(root / place, hue=number)
                images.append({"id": number, "file_name": place, "width": SIZE[0], "height": SIZE[1]})
                notes.append({"id": number, "image_id": number, "category_id": c})
                number += 1
        contents = {"images": images, "categories": categories}
        contents |= {} if subset == "test" else {"annotations": notes[::-1]}  # the order must not matter
        (root / f"{subset}2018.json").write_text(json.dumps(contents))
    return root


def make_imagenet(root: Path, classes: int = 3, per_class: int = 2, names: bool = True) -> Path:
    """train/SYNSET and val/SYNSET, and torchvision's meta.bin with the class names."""
    synsets = [f"n{1440764 + 1000 * c:08}" for c in range(classes)]
    for subset in ("train", "val"):
        for c, synset in enumerate(synsets):
            for i in range(per_class):
                name = f"{synset}_{i}.JPEG" if subset == "train" else f"ILSVRC2012_val_{c * per_class + i:08}.JPEG"
                write_image(root / subset / synset / name, hue=100 * c + i + 5000 * (subset == "val"))
    if names:
        by_synset = {synset: (f"fish {c}", f"Piscis {c}") for c, synset in enumerate(synsets)}
        torch.save((by_synset, synsets), root / "meta.bin")
    return root


def make_places365(root: Path, classes: int = 3, per_class: int = 2) -> Path:
    """The lists of the development kit, and images in the folders for 256 pixels."""
    names = [
        ("/a/airfield", "/a/apartment_building/outdoor", "/z/zen_garden", "/b/bar")[c % 4] + str(c // 4 or "")
        for c in range(classes)
    ]
    train, val = [], []
    for c, name in enumerate(names):
        for i in range(per_class):
            write_image(root / "data_256_standard" / name[1:] / f"{i:08}.jpg", hue=100 * c + i)
            train.append(f"{name}/{i:08}.jpg {c}")
            file = f"Places365_val_{c * per_class + i:08}.jpg"
            write_image(root / "val_256" / file, hue=5000 + 100 * c + i)
            val.append(f"{file} {c}")
    _lines(root / "categories_places365.txt", (f"{name} {c}" for c, name in enumerate(names)))
    _lines(root / "places365_train_standard.txt", train)
    _lines(root / "places365_val.txt", val)
    return root


def make_flat(root: Path, classes: int = 3, per_class: int = 6, size: tuple[int, int] = SIZE) -> Path:
    """root/CLASS/IMAGE without train and test; images of a class have the same stripes and color, with noise."""
    width, height = size
    for c in range(classes):
        color = np.random.default_rng(c).uniform(60, 190, 3)
        stripes = 60 * np.sin(np.arange(width) * (c + 1) / 3)[None, :, None]
        for i in range(per_class):
            noise = np.random.default_rng([c, i]).normal(0, 8, (height, width, 3))
            path = root / f"class{c}" / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray((color + stripes + noise).clip(0, 255).astype(np.uint8)).save(path)
    return root
