"""The reduction of a pool starts from the features of the training images."""

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_fabric import Fabric

import covpool
from covpool._progress import ignore
from covpool.data.pipeline import EvalBatches
from covpool.data.sets import open_data
from covpool.engine.training._interrupt import StopRequests
from covpool.engine.training._pool_init import init_pool_from_data
from covpool.engine.training._session import Session
from tiny import make_tree, tiny_recipe
from trees import break_image


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tree(tmp_path_factory.mktemp("images") / "tree")


def started(root: Path, run: Path, **tables: dict[str, Any]) -> Session:
    """A session whose pool has been initialized from data."""
    recipe = tiny_recipe(root, **{"init": {"reduction": "pca"}, **tables})
    session = Session(Fabric(accelerator="cpu"), recipe, run, open_data(recipe.data), ignore)
    init_pool_from_data(session, StopRequests())
    return session


@pytest.mark.parametrize("kind", ["linear", "conv_bn_relu"])
def test_axes_are_those_of_all_training_images(root: Path, tmp_path: Path, kind: str) -> None:
    session = started(root, tmp_path, pool={"options": {"reduce_to": 8, "reduce_kind": kind}})
    pool = covpool.create_pool("isqrt", session.network.features.channels[0], reduce_to=8, reduce_kind=kind)
    images = EvalBatches(session.splits.train, session.augment, session.recipe.data, batch_size=48)
    with torch.no_grad():
        pool.init_reduction([session.network.forward_features(batch.x) for batch in images])
    for name, value in pool.state_dict().items():
        torch.testing.assert_close(session.network.pool.state_dict()[name], value, rtol=1e-4, atol=1e-4)


def test_images_that_cannot_be_read_do_not_count(tmp_path: Path) -> None:
    whole, holed = (make_tree(tmp_path / name, train=4) for name in ("whole", "holed"))
    break_image(holed / "train" / "red" / "3.png")
    (whole / "train" / "red" / "3.png").unlink()
    pools = [started(root, tmp_path, data={"broken": "skip"}).network.pool for root in (whole, holed)]
    for one, other in zip(pools[0].parameters(), pools[1].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_pool_without_a_reduction_is_left_alone(root: Path, tmp_path: Path) -> None:
    session = started(root, tmp_path, pool={"name": "avg", "options": {}})
    assert not session.network.pool.has_reduction


def test_words_start_after_the_reduction(root: Path, tmp_path: Path) -> None:
    init = {"reduction": "pca", "pool_from_data": True, "descriptors": 200}
    options = {"reduce_to": 8, "reduce_kind": "linear", "clusters": 3}
    pool = started(root, tmp_path, init=init, pool={"name": "netvlad", "options": options}).network.pool
    assert torch.isfinite(pool(torch.randn(2, pool.in_features, 3, 3))).all()


def test_a_pool_from_a_checkpoint_keeps_its_weights(root: Path, tmp_path: Path) -> None:
    network = covpool.attach("test_resnet", "isqrt", 3, reduce_to=8, reduce_kind="linear")
    covpool.save(network, tmp_path / "fit.safetensors", class_names=["blue", "green", "red"])
    options = {"reduce_to": 8, "reduce_kind": "linear"}
    init = {"reduction": "pca", "weights": str(tmp_path / "fit.safetensors")}
    session = started(root, tmp_path, init=init, pool={"options": options})
    for one, other in zip(session.network.parameters(), network.parameters(), strict=True):
        assert torch.equal(one, other)
