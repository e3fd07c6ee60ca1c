"""Checkpoints of covpool 0.1: the description is written here exactly as that version wrote it."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import covpool
from covpool.io import is_checkpoint, read_checkpoint
from covpool.models import Network

VERSIONS = {"covpool": "0.1.0", "torch": "2.8.0", "torchvision": "0.23.0", "timm": "1.0.19", "safetensors": "0.5.3"}
ATTACHED = {
    "kind": "attach",
    "backbone": "test_resnet",
    "pool": "isqrt",
    "num_classes": 3,
    "keep_last_stride": False,
    "reduce_to": [16, 8],
    "head_layers": [],
    "head_norm": True,
    "levels": [],
    "prefix_tokens": "drop",
    "input_size": None,
    "backbone_options": None,
    "pool_options": {"iterations": 3, "normalize": ["epn", "bn"]},
}
NAMED = {"kind": "model", "name": "resnet18_isqrt_2k", "num_classes": 3, "pool_options": {}}
PREPROCESSING = {
    "size": 32,
    "resize": [36],
    "mean": [0.485, 0.456, 0.406],
    "std": [0.229, 0.224, 0.225],
    "interpolation": "bilinear",
}
RECIPE = {
    "name": "run",
    "about": "",
    "seed": 0,
    "model": {"name": "", "backbone": "test_resnet"},
    "data": {
        "name": "dtd",
        "root": "textures",
        "split": 2,
        "train_on": "train+val",
        "test_on": "test",
        "broken": "skip",
        "cache": "memory",
        "workers": 2,
    },
    "evaluate": {"every": 1, "crops": 10, "flip": True, "batch_size": 0},
}


def write(path: Path, network: Network, **changes: Any) -> Path:
    description = {
        "format": 1,
        "recipe": ATTACHED,
        "class_names": ["cat", "dog", "fox"],
        "preprocessing": PREPROCESSING,
        "recipe_extra": {"training": RECIPE, "epoch": 4, "step": 40, "metrics": {"top1": 0.5, "loss": 1.25}},
        "origin": None,
        "versions": VERSIONS,
        "channels_last": False,
    }
    text = json.dumps({**description, **changes})
    safetensors.torch.save_file(network.state_dict(), path, metadata={"covpool": text})
    return path


def attached() -> Network:
    return covpool.attach("test_resnet", "isqrt", 3, reduce_to=(16, 8), iterations=3, normalize=("epn", "bn")).eval()


@torch.no_grad()
def test_a_trained_network(tmp_path: Path) -> None:
    network = attached()
    path = write(tmp_path / "best.safetensors", network)
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(covpool.load(path)(x), network(x))
    found = read_checkpoint(path)
    assert is_checkpoint(path) and found.architecture == network.architecture
    assert found.class_names == ("cat", "dog", "fox") and found.versions == VERSIONS
    assert found.preprocessing is not None and found.preprocessing.resize == (36,)
    assert found.evaluation is not None and (found.evaluation.crops, found.evaluation.flip) == (10, True)
    assert found.data is not None and dict(found.data)["split"] == 2 and found.data.train_on == "train+val"
    training = found.training
    assert training is not None and training.recipe == RECIPE
    assert (training.epoch, training.step, training.metrics["loss"]) == (4, 40, 1.25)


@torch.no_grad()
def test_a_format_1_file_of_a_network_of_the_paper(tmp_path: Path) -> None:
    network = covpool.create_model("resnet18_isqrt_2k", 3).eval()
    unknown: dict[str, Any] = {"class_names": None, "preprocessing": None, "recipe_extra": None}
    path = write(tmp_path / "model.safetensors", network, recipe=NAMED, origin="A / G: resnet18", **unknown)
    found = read_checkpoint(path)
    assert (found.training, found.data, found.evaluation, found.preprocessing) == (None, None, None, None)
    again, x = found.load(), torch.randn(1, 3, 64, 64)
    assert torch.equal(again(x), network(x)) and again.origin == "A / G: resnet18"


@torch.no_grad()
def test_a_backbone_object_and_free_notes(tmp_path: Path) -> None:
    def backbone() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 1))

    network = covpool.attach(backbone(), "cov", 3, keep_last_stride=True).eval()
    assert network.architecture is not None
    recipe = dataclasses.asdict(network.architecture)
    path = write(tmp_path / "model.safetensors", network, recipe=recipe, recipe_extra={"lr": 0.1})
    with pytest.raises(ValueError, match="give `backbone`"):
        covpool.load(path)
    x = torch.randn(1, 3, 32, 32)
    assert torch.equal(covpool.load(path, backbone=backbone())(x), network(x))
    training = read_checkpoint(path).training
    assert training is not None and training.notes == {"lr": 0.1}


def test_a_network_put_together_by_hand(tmp_path: Path) -> None:
    def network() -> Network:
        return Network(torch.nn.Conv2d(3, 8, 3), covpool.create_pool("isqrt", 8), torch.nn.Linear(36, 3))

    path = write(tmp_path / "model.safetensors", network(), recipe=None)
    with pytest.raises(ValueError, match="put together by hand"):
        covpool.load(path)
    assert covpool.load(path, backbone=network()).num_classes == 3
