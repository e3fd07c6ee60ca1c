"""Dropout of the pooled vector acts in training alone, and leaves the network as it was."""

from pathlib import Path

import pytest
import torch

import covpool
import trees
from covpool import CovpoolError
from covpool._records import read_lines
from covpool.engine.training._loop import train
from covpool.engine.training._vector_dropout import drop_vectors
from covpool.recipe import read_recipe

TINY = (
    *("data.workers=0", "augment.size=32", "model.backbone=test_resnet", "init.pretrained=false", "pool.reduce_to=8"),
    *("init.reduction=random", "train.epochs=2", "train.batch_size=6", "train.precision=32", "train.log_every=1"),
    *("devices.accelerator=cpu", "train.label_smoothing=0"),
)


def test_elements_are_dropped_in_training_alone() -> None:
    network = covpool.attach("test_resnet", "isqrt", 3, reduce_to=16)
    seen: list[torch.Tensor] = []
    network.classifier.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    handle = drop_vectors(network, 0.25)
    z = torch.rand(50, 136) + 1
    network.train().classifier(z)
    network.eval().classifier(z)
    handle.remove()
    network.train().classifier(z)
    dropped, *kept = seen
    assert all(torch.equal(one, z) for one in kept)
    assert float((dropped == 0).float().mean()) == pytest.approx(0.25, abs=0.03)
    torch.testing.assert_close(dropped[dropped != 0], (z / 0.75)[dropped != 0])


def test_a_pool_that_is_its_own_classifier_is_refused() -> None:
    network = covpool.attach("test_resnet", "fbn", 3, reduce_to=None)
    with pytest.raises(CovpoolError, match="requires a pool that is followed by a classifier; FactorizedBilinearPool"):
        drop_vectors(network, 0.5)


def test_training_with_dropout_repeats_exactly(tmp_path: Path) -> None:
    root = trees.make_folder(tmp_path / "images")
    losses = []
    for run, probability in (("none", 0), ("first", 0.5), ("again", 0.5)):
        recipe = read_recipe("finetune", [f"data.root={root}", *TINY, f"train.vector_dropout={probability}"])
        train(recipe, tmp_path / run)
        losses.append([e["train_loss"] for e in read_lines(tmp_path / run / "log.jsonl") if e["event"] == "epoch"])
    without, first, again = losses
    assert first == again and first != without
