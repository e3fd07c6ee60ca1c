"""Descriptions of checkpoints: what is refused, and the one line that says why."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import covpool
from covpool import CovpoolError
from covpool.io import DataSplit, Preprocessing, TrainingRecord, read_checkpoint


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    """The description of a checkpoint with every part, as it stands in the file."""
    return {
        "format": 2,
        "architecture": {
            "kind": "attach",
            "backbone": "test_resnet",
            "pool": "isqrt",
            "num_classes": 2,
            "reduce_to": [16, 8],
            "pool_options": {"iterations": 3},
        },
        "class_names": ["cat", "dog"],
        "preprocessing": {"size": 32, "resize": [36], "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]},
        "evaluation": {"crops": 10, "flip": True},
        "data": {"name": "dtd", "split": 3, "images": {"train": 4}, "fingerprints": {"train": "abc"}},
        "training": {"recipe": {"seed": 0}, "epoch": 3, "step": 30, "metrics": {"top1": 0.5}},
        "origin": None,
        "versions": {"covpool": "0.2.0"},
        "channels_last": False,
    }


def write(path: Path, description: Any) -> Path:
    text = description if isinstance(description, str) else json.dumps(description)
    safetensors.torch.save_file({"a": torch.ones(1)}, path, metadata={"covpool": text})
    return path


def test_every_part_is_read(described: dict[str, Any], tmp_path: Path) -> None:
    found = read_checkpoint(write(tmp_path / "model.safetensors", described))
    assert found.architecture is not None and found.architecture.reduce_to == (16, 8)
    assert found.class_names == ("cat", "dog")
    assert found.preprocessing == Preprocessing(size=32, resize=(36,), mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    assert found.evaluation is not None and (found.evaluation.crops, found.evaluation.flip) == (10, True)
    assert found.data == DataSplit(name="dtd", split=3, images={"train": 4}, fingerprints={"train": "abc"})
    assert found.training == TrainingRecord(recipe={"seed": 0}, epoch=3, step=30, metrics={"top1": 0.5})
    assert found.path == tmp_path / "model.safetensors"


def test_a_file_that_says_nothing_of_it_is_of_the_plain_kind(described: dict[str, Any], tmp_path: Path) -> None:
    """One central crop, not flipped, and torch's usual memory format: files leave out what was not used."""
    brief = {key: value for key, value in described.items() if key != "channels_last"} | {"evaluation": {}}
    found = read_checkpoint(write(tmp_path / "model.safetensors", brief))
    assert found.evaluation is not None and (found.evaluation.crops, found.evaluation.flip) == (1, False)
    assert found.channels_last is False


TAMPERED: list[tuple[str, Any, str]] = [
    ("format", 3, "must have format 1 to 2; got 3: upgrade covpool"),
    ("format", "2", "got '2': the file is damaged"),
    ("format", True, "got True"),
    ("architecture", {}, "`architecture`: has no `kind`"),
    ("architecture", {"kind": "pickle"}, "`architecture`: .*'pickle'"),
    ("architecture", {"kind": "model", "name": "resnet18"}, "`architecture.num_classes`: is missing"),
    ("architecture", "resnet18", "`architecture`"),
    ("architecture.num_classes", 0, "`num_classes` must be a positive integer; got 0"),
    ("architecture.num_classes", 2.5, "`architecture.num_classes`: .*integer; got 2.5"),
    ("architecture.num_classes", 10**12, "`class_names` must have one name per class"),
    ("architecture.reduce_to", [10**9], "`architecture.reduce_to` must be between 1 and 1,000,000"),
    ("architecture.weights", "evil.pth", "`architecture.weights`: is not a known field"),
    ("class_names", ["cat"], "`class_names` must have one name per class, 2; got 1"),
    ("class_names", "cd", "`class_names`"),
    ("class_names", ["cat", 7], "`class_names.1`: .*string; got 7"),
    ("preprocessing.mean", [1], "`preprocessing.mean.1`: is missing"),
    ("preprocessing.mean", [float("nan"), 0, 0], "`preprocessing.mean.0`: .*finite number; got nan"),
    ("preprocessing.std", [0.5, 0.5, 0], "`preprocessing.std.2`: .*greater than 0; got 0"),
    ("preprocessing.size", 10**9, "`preprocessing.size`: .*less than or equal to 16384; got 1000000000"),
    ("preprocessing.size", "32", "`preprocessing.size`: .*integer; got '32'"),
    ("preprocessing.resize", [1, 2, 3], "`preprocessing.resize`"),
    ("preprocessing.interpolation", "telepathy", "`preprocessing.interpolation`"),
    ("preprocessing.url", "http://", "`preprocessing.url`: is not a known field"),
    ("evaluation.crops", 5, "`evaluation.crops`"),
    ("data.split", -1, "`data.split`"),
    ("data.split_fraction", 1.5, "`data.split_fraction`"),
    ("training.epoch", -1, "`training.epoch`"),
    ("versions", None, "`versions`"),
    ("channels_last", 1, "`channels_last`"),
    ("surprise", 1, "`surprise`: is not a known field"),
]


@pytest.mark.parametrize(("field", "value", "message"), TAMPERED, ids=lambda value: str(value)[:40])
def test_tampered_fields_are_named(
    field: str, value: Any, message: str, described: dict[str, Any], tmp_path: Path
) -> None:
    tampered = json.loads(json.dumps(described))
    *parents, last = field.split(".")
    table = tampered
    for parent in parents:
        table = table[parent]
    table[last] = value
    with pytest.raises(CovpoolError, match=message) as caught:
        read_checkpoint(write(tmp_path / "model.safetensors", tampered))
    assert "\n" not in str(caught.value) and "model.safetensors" in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"format": 2}', "[" * 100_000, '{"format": 1}'])
def test_a_description_that_is_none(text: str, tmp_path: Path) -> None:
    with pytest.raises(CovpoolError, match=re.escape(repr(str(tmp_path / "model.safetensors")))):
        read_checkpoint(write(tmp_path / "model.safetensors", text))


def test_save_checks_what_it_is_given(tmp_path: Path) -> None:
    network, path = covpool.attach("test_resnet", "cov", 3, reduce_to=4), tmp_path / "model.safetensors"
    with pytest.raises(CovpoolError, match="one name per class, 3; got 2"):
        covpool.save(network, path, class_names=["cat", "dog"])
    with pytest.raises(TypeError, match="a list of names, one per class; got the text 'abc'"):
        covpool.save(network, path, class_names="abc")
    with pytest.raises(CovpoolError, match=r"`preprocessing.mean.1`: is missing"):
        covpool.save(network, path, preprocessing={"mean": [0.5]})
    with pytest.raises(CovpoolError, match=r"`training.lr`: is not a known field"):
        covpool.save(network, path, training={"lr": 0.1})
    assert not list(tmp_path.iterdir())


def test_metrics_that_are_not_finite_are_kept_as_none(tmp_path: Path) -> None:
    network, path = covpool.attach("test_resnet", "cov", 3, reduce_to=4), tmp_path / "model.safetensors"
    covpool.save(network, path, training={"metrics": {"loss": float("nan"), "top1": 0.25}})
    training = read_checkpoint(path).training
    assert training is not None and training.metrics == {"loss": None, "top1": 0.25}
