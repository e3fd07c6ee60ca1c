"""The files and folders that the malformed command lines name: good ones, and ones with a mistake."""

import json
import os
import pickle
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from PIL import Image

import covpool
from covpool.engine.training import train
from tiny import make_tree, tiny_recipe
from trees import make_folder

TABLE = Path(__file__).with_name("command_lines.txt")
LATIN = os.fsdecode("b\u00e9b\u00e9".encode("latin-1"))  # a name of a file that is not UTF-8
SMALL = "devices.accelerator=cpu data.workers=0 train.epochs=1 train.batch_size=4 augment.size=32"
SHORTCUTS = {
    "train": "train finetune data.root={tree} model.backbone=test_resnet init.pretrained=false --no-report --out {out} "
    + SMALL,
    "fit": "fit {tree} backbone=test_resnet pretrained=false pool=avg size=32 --no-report --out {out} --device cpu",
    "probe": "probe backbone=test_resnet pools=[avg] augment.size=32 --data {tree} --device cpu",
}


def command_lines() -> list[str]:
    """The lines of the table, without comments."""
    lines = TABLE.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def arguments(line: str, world: dict[str, str], out: Path) -> list[str]:
    """The arguments of a command line."""
    for name, text in SHORTCUTS.items():
        line = line.replace("{" + name + "}", text)
    return shlex.split(line.format(**world, out=out))


def make_world(root: Path) -> dict[str, str]:
    """Make everything below `root`; returns the paths by the names in the table."""
    made = {**dict(_folders(root)), **dict(_files(root))}
    made["missing"] = root / "missing"
    return {name: str(path) for name, path in made.items()}


def _folders(root: Path) -> Iterator[tuple[str, Path]]:
    yield "tree", make_tree(root / "tree", train=4, test=2)
    recipe = tiny_recipe(root / "tree", train={"epochs": 1, "batch_size": 4})
    train(recipe, root / "run")
    yield "run", root / "run"
    yield "one_class", make_folder(root / "one_class", classes=1)
    yield "no_test", make_folder(root / "no_test", subsets=("train",))
    for name in ("empty", "flat_empty/train/a"):
        (root / name).mkdir(parents=True)
    yield from (("empty", root / "empty"), ("flat_empty", root / "flat_empty"))
    yield "latin_tree", make_tree(root / LATIN, train=4, test=2)
    for name in ("loop", "latin_class", "mismatch", "damaged", "pipes", "narrow"):
        folder = make_tree(root / name, train=4, test=2)
        first = folder / "test" / "blue" / "0.png"
        if name == "loop":
            (folder / "train" / "blue" / "up").symlink_to("..")
        elif name == "latin_class":
            for subset in ("train", "test"):
                (folder / subset / "blue").rename(folder / subset / LATIN)
        elif name == "mismatch":
            (folder / "test" / "blue").rename(folder / "test" / "purple")
        elif name == "damaged":
            first.write_bytes(first.read_bytes()[:60])
        elif name == "pipes":
            first.unlink()
            os.mkfifo(first)
        else:
            Image.new("RGB", (1, 200_000)).save(first)
        for path in (folder / "train").glob("*/0.png"):  # so that training meets the mistake too
            if name in ("damaged", "pipes", "narrow"):
                path.unlink()
                path.symlink_to(first)
        yield name, folder


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    yield "image", root / "tree" / "test" / "blue" / "0.png"
    (root / "notes.txt").write_text("= not a recipe, an image or a list\n")
    yield "text", root / "notes.txt"
    os.mkfifo(root / "pipe.png")
    yield "fifo", root / "pipe.png"
    (root / "evil.pth").write_bytes(pickle.dumps(print))
    yield "pickle", root / "evil.pth"
    safetensors.torch.save_file({"weight": torch.ones(2)}, root / "bare.safetensors")
    yield "bare", root / "bare.safetensors"
    for name, classes in (("checkpoint", ("blue", "green", "red")), ("other_checkpoint", ("cat", "dog"))):
        network = covpool.attach("test_resnet", "isqrt", len(classes), reduce_to=8)
        settings = {"size": 32, "resize": [32]}
        covpool.save(network, root / f"{name}.safetensors", class_names=classes, preprocessing=settings)
        yield name, root / f"{name}.safetensors"
    with torch.no_grad():
        for weight in network.parameters():
            weight.fill_(float("nan"))
    covpool.save(network, root / "nan.safetensors", class_names=classes, preprocessing=settings)
    yield "nan_checkpoint", root / "nan.safetensors"
    (root / "zero.safetensors").touch()
    yield "zero_checkpoint", root / "zero.safetensors"
    whole = (root / "checkpoint.safetensors").read_bytes()
    (root / "damaged.safetensors").write_bytes(whole[: len(whole) // 2])
    yield "damaged_checkpoint", root / "damaged.safetensors"
    np.savez(root / "other.npz", values=np.ones((2, 3)))
    yield "other_npz", root / "other.npz"
    np.savez(root / "pickled.npz", vectors=np.array([print], dtype=object), about=json.dumps({}))
    yield "pickled_npz", root / "pickled.npz"
    yield "vectors", root / "vectors.npz"
