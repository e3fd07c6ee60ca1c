"""Trainings that take seconds, and the files they write."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy

import covpool
from covpool._records import read_lines
from covpool.data import Data, Images
from covpool.data.pipeline import EvalBatches, data_settings
from covpool.data.pipeline._batches import TrainBatches
from covpool.data.sets._open import open_data
from covpool.engine import compute_scores
from covpool.engine.evaluation import LoadedCheckpoint
from covpool.engine.evaluation._metrics import accuracies
from covpool.engine.training._build import build_network
from covpool.engine.training._log import Event
from covpool.engine.training._loop import train
from covpool.recipe._parse import read_recipe
from covpool.recipe._schema import Recipe, Stage
from tiny import CLASSES, make_tree, tiny_recipe


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tree(tmp_path_factory.mktemp("images") / "tree")


def weights(run: Path, name: str = "last") -> dict[str, torch.Tensor]:
    return load_file(run / f"{name}.safetensors")


def by_hand(recipe: Recipe, *, epochs: int, ema: float = 0.0) -> dict[str, torch.Tensor]:
    """The same training in a plain loop: SGD on the mean loss, with averaged weights."""
    splits = open_data(recipe.data)
    torch.manual_seed(recipe.seed)
    network = build_network(recipe, splits.train.classes).network.train()
    averaged: dict[str, torch.Tensor] = {}
    optimizer = torch.optim.SGD(
        [
            {"params": [*network.features.parameters(), *network.pool.parameters()], "lr": 0.05},
            {"params": network.classifier.parameters(), "lr": 0.05 * recipe.optimizer.head_factor},
        ],
        momentum=0.9,
        weight_decay=1e-4,
    )
    batches = TrainBatches(splits.train, recipe.augment, recipe.data, batch_size=12, seed=recipe.seed)
    for epoch in range(epochs):
        for group, factor in zip(optimizer.param_groups, (1.0, recipe.optimizer.head_factor), strict=True):
            group["lr"] = 0.05 * factor * 0.1**epoch
        for batch in batches.epoch(epoch):
            optimizer.zero_grad()
            cross_entropy(network(batch.x), batch.y, label_smoothing=0.1).backward()
            optimizer.step()
            for name, value in network.named_parameters():
                kept = averaged.get(name, value.detach())
                averaged[name] = ema * kept + (1 - ema) * value.detach()
    return {**network.state_dict(), **averaged} if ema else network.state_dict()


@pytest.mark.parametrize("ema", [0.0, 0.5])
def test_against_a_loop_by_hand(root: Path, tmp_path: Path, ema: float) -> None:
    recipe = tiny_recipe(
        root,
        optimizer={"head_factor": 5.0},
        schedule={"milestones": (1,)},
        train={"label_smoothing": 0.1, "ema": ema},
    )
    train(recipe, tmp_path / "run")
    for name, expected in by_hand(recipe, epochs=2, ema=ema).items():
        torch.testing.assert_close(weights(tmp_path / "run")[name], expected.detach(), rtol=1e-5, atol=1e-6)


def test_files_and_events_of_a_run(root: Path, tmp_path: Path) -> None:
    events: list[Event] = []
    recipe = tiny_recipe(root)
    result = train(recipe, tmp_path / "run", on_event=events.append)
    assert read_recipe(tmp_path / "run" / "recipe.toml") == recipe
    log = read_lines(tmp_path / "run" / "log.jsonl")
    assert [(line["event"], line["step"]) for line in log] == [
        *(("step", 2), ("step", 4), ("epoch", 4)),
        *(("step", 6), ("step", 8), ("epoch", 8), ("end", 8)),
    ]
    assert [event["step"] for event in events if event["event"] == "tick"] == list(range(1, 9))
    accuracies = [line["top1"] for line in log if line["event"] == "epoch"]
    assert result.best == max(accuracies) and result.best_on == "test", "labelled, because it is too optimistic"
    assert result.metrics["top1"] == accuracies[-1] == log[-1]["top1"] and result.epoch == log[-1]["result_epoch"] == 2
    saved = covpool.io.read_checkpoint(tmp_path / "run" / "last.safetensors")
    assert saved.class_names == tuple(CLASSES) and saved.preprocessing.size == 32
    assert saved.training.epoch == 2 and saved.training.recipe["optimizer"]["lr"] == 0.05
    assert saved.training.metrics["top1"] == accuracies[-1]
    assert (saved.evaluation.crops, saved.evaluation.flip) == (1, False) and saved.data.name == "folder"
    assert saved.data.images == {"train": 48, "test": 12} and len(set(saved.data.fingerprints.values())) == 2
    network = covpool.load(tmp_path / "run" / "last.safetensors")
    assert network.num_classes == 3


def top1_of(checkpoint: Path, images: Images) -> float:
    """The accuracy of a checkpoint on some images, computed anew."""
    loaded = LoadedCheckpoint.read(checkpoint, "cpu")
    batches = EvalBatches(images, loaded.augment, Data(workers=0), batch_size=7)
    return accuracies(*compute_scores(loaded.network, batches))["top1"]


def test_the_epoch_is_chosen_on_the_validation_set(root: Path, tmp_path: Path) -> None:
    """The test set is evaluated once, with the checkpoint that is best on the validation images."""
    recipe = tiny_recipe(root, data={"validation_fraction": 0.25}, train={"epochs": 4, "ema": 0.5})
    result, run = train(recipe, tmp_path / "run"), tmp_path / "run"
    log = read_lines(run / "log.jsonl")
    held_out = [line["validation_top1"] for line in log if line["event"] == "epoch"]
    assert not any("top1" in line for line in log[:-1]), "no test figure before the end"
    assert result.best == max(held_out) and result.best_on == "validation"
    assert result.epoch == result.best_epoch == held_out.index(max(held_out)) + 1
    splits = open_data(recipe.data)
    assert splits.validation is not None
    assert result.metrics["top1"] == log[-1]["top1"] == top1_of(run / "best.safetensors", splits.test)
    assert result.best == top1_of(run / "best.safetensors", splits.validation)
    saved = covpool.io.read_checkpoint(run / "best.safetensors")
    assert saved.data.images == {"train": 36, "validation": 12, "test": 12}
    assert saved.training.notes == {"chosen_on": "validation"} and "top1" not in saved.training.metrics
    assert data_settings(saved.data).validation_fraction == 0.25


def test_a_validation_folder_is_used_to_choose(root: Path, tmp_path: Path) -> None:
    three = shutil.copytree(root, tmp_path / "three")
    shutil.copytree(three / "test", three / "val")
    result = train(tiny_recipe(three, train={"epochs": 1}), tmp_path / "run")
    assert result.best_on == "validation" and result.best == result.metrics["top1"]
    both = open_data(Data(root=str(three), train_on="train+val"))
    assert both.validation is None, "images that are trained on cannot choose"
    assert open_data(Data(root=str(three), test_on="val")).validation is None


def test_accumulation_is_one_large_batch(root: Path, tmp_path: Path) -> None:
    for cuts in (1, 3):
        settings = {"epochs": 1, "freeze_norms": True, "accumulate": cuts, "clip_norm": 0.3}
        train(tiny_recipe(root, train=settings), tmp_path / str(cuts))
    for name, expected in weights(tmp_path / "1").items():
        torch.testing.assert_close(weights(tmp_path / "3")[name], expected, rtol=0, atol=1e-5)


def test_stages_freeze_and_unfreeze(root: Path, tmp_path: Path) -> None:
    """As for B-CNN: first the classifier only, then everything."""
    stages = (Stage(epochs=1, freeze=("features", "pool"), lr=0.5), Stage(epochs=1, freeze=(), lr=0.01, batch_size=24))
    recipe = tiny_recipe(root).changed(stages=stages)
    torch.manual_seed(0)
    fresh = build_network(recipe, CLASSES).network.state_dict()
    seen: dict[int, dict[str, torch.Tensor]] = {}

    def look(event: Event) -> None:
        if event["event"] == "epoch":
            seen[event["epoch"]] = weights(tmp_path / "run")

    train(recipe, tmp_path / "run", on_event=look)
    for name, first in fresh.items():
        is_free = name.startswith("classifier.")
        assert torch.equal(seen[1][name], first) != is_free, name
    assert all(not torch.equal(seen[2][n], seen[1][n]) for n in fresh if n.endswith("conv1.weight"))
    rates = [line["lr"] for line in read_lines(tmp_path / "run" / "log.jsonl") if line["event"] == "step"]
    assert rates == [0.5, 0.5, 0.01]


@pytest.mark.parametrize(
    "tables",
    [
        {"train": {"precision": "bf16", "channels_last": True}},
        {"augment": {"mixup": 0.2, "cutmix": 1.0}},
        {"optimizer": {"name": "adamw", "lr": 1e-3, "decay_norms": False}},
        {"evaluate": {"crops": 10, "flip": True}},
        {"train": {"deterministic": True}},
        {"data": {"workers": 1}},
        {"data": {"cache": "ram"}},
        {"data": {"cache": "gpu"}},
    ],
    ids=str,
)
def test_every_switch_trains(root: Path, tmp_path: Path, tables: dict[str, Any]) -> None:
    tables = {**tables, "train": {"epochs": 1, **tables.get("train", {})}}
    result = train(tiny_recipe(root, **tables), tmp_path / "run")
    assert 0 <= result.metrics["top1"] <= 1 and result.metrics["loss"] < 2


def test_pool_initialized_from_data(root: Path, tmp_path: Path) -> None:
    options = {"name": "netvlad", "options": {"reduce_to": 8, "clusters": 4}}
    recipe = tiny_recipe(root, pool=options, init={"pool_from_data": True, "descriptors": 200}, train={"epochs": 1})
    assert train(recipe, tmp_path / "run").epochs == 1


def test_pool_that_cannot_be_initialized_from_data(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not initialized from data"):
        train(tiny_recipe(root, init={"pool_from_data": True}), tmp_path / "run")


def test_broken_images_are_named_once(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "tree")
    broken = [root / "train" / "red" / "3.png", root / "test" / "blue" / "1.png"]
    for path in broken:
        path.write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"red/3.png cannot be read"):
        train(tiny_recipe(root), tmp_path / "refused")
    train(tiny_recipe(root, data={"broken": "skip"}), tmp_path / "run")
    named = [line for line in read_lines(tmp_path / "run" / "log.jsonl") if line["event"] == "broken"]
    found = {line["path"]: line["part"] for line in named}
    assert len(named) == 2 and found == {str(broken[0]): "train", str(broken[1]): "test"}


def test_a_loss_that_is_not_finite_stops_the_training(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the loss is not finite at step \d+: lower optimizer.lr"):
        train(tiny_recipe(root, optimizer={"lr": 1e15}), tmp_path / "run")
    assert not (tmp_path / "run" / "state.pt").exists()


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"train": {"batch_size": 10, "accumulate": 4}}, "must be a multiple of 4 accumulated"),
        ({"train": {"batch_size": 600}}, "must not be larger than the training set"),
        ({"train": {"precision": "fp16"}}, r"needs a GPU: use train.precision=bf16"),
        ({"train": {"sync_norms": True}}, "works on GPUs only"),
        ({"train": {"freeze": ("features.body.layer9",)}}, r"`train.freeze` must name"),
        ({"data": {"root": "/no/such"}}, "there is no folder /no/such"),
    ],
)
def test_mistakes(root: Path, tmp_path: Path, tables: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        train(tiny_recipe(root, **tables), tmp_path / "run")


def test_a_run_is_not_overwritten(root: Path, tmp_path: Path) -> None:
    recipe = tiny_recipe(root, train={"epochs": 1})
    train(recipe, tmp_path / "run")
    with pytest.raises(ValueError, match="holds a run already: continue it with `covpool train --resume"):
        train(recipe, tmp_path / "run")
    with pytest.raises(ValueError, match=r"`train.freeze` must name"):
        train(tiny_recipe(root, train={"freeze": ("layer9",)}), tmp_path / "mistaken")
    train(recipe, tmp_path / "mistaken")  # the folder holds nothing worth keeping
    with pytest.raises(ValueError, match="is not the folder of a run"):
        train(recipe, tmp_path / "empty", resume=True)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"data": {"root": "/no/such"}}, "there is no folder /no/such"),
        ({"model": {"backbone": "resnet_51"}}, "timm has no model 'resnet_51'"),
        ({"optimizer": {"name": "adahessian"}}, "needs second derivatives"),
    ],
)
def test_a_run_that_cannot_begin_leaves_no_files(root: Path, tmp_path: Path, tables: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        train(tiny_recipe(root, **tables), tmp_path / "runs" / "run")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"file is not a writable folder; name another --out"):
        train(tiny_recipe(make_tree(tmp_path / "tree", train=4)), tmp_path / "file" / "run")


def test_a_training_that_only_warms_up_says_so(root: Path, tmp_path: Path) -> None:
    events: list[Event] = []
    recipe = tiny_recipe(root, train={"epochs": 1}, schedule={"name": "cosine", "warmup_epochs": 2.0})
    train(recipe, tmp_path / "run", on_event=events.append)
    (notes,) = (event["notes"] for event in events if event["event"] == "stage")
    assert any("never reaches optimizer.lr" in note for note in notes)
