"""Preparing the first step beside the decoding changes nothing."""

from pathlib import Path

import pytest
import torch

from covpool._progress import ignore
from covpool.data.sets import open_data
from covpool.engine._devices import make_fabric
from covpool.engine.training import _warm_up
from covpool.engine.training._session import Session
from covpool.engine.training._warm_up import decode_and_warm_up
from covpool.recipe import Recipe, ResolvedStage, resolve_stages
from tiny import make_tree, tiny_recipe

ON_GPU = torch.cuda.is_available()
DEVICES = {"accelerator": "gpu" if ON_GPU else "cpu", "devices": "1"}


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    cache = "gpu" if ON_GPU else "ram"
    return tiny_recipe(make_tree(tmp_path / "tree"), data={"cache": cache}, devices=DEVICES)


def begin(recipe: Recipe, run: Path) -> tuple[Session, ResolvedStage]:
    fabric = make_fabric(recipe.devices, recipe.train.precision)
    session = Session(fabric, recipe, run, open_data(recipe.data), ignore)
    return session, next(resolve_stages(session.recipe))


@pytest.mark.parametrize("changes", [{}, {"channels_last": True, "precision": "bf16", "accumulate": 2}])
def test_weights_statistics_and_random_numbers_stay(recipe: Recipe, tmp_path: Path, changes: dict[str, object]) -> None:
    session, stage = begin(recipe.changed(train=changes), tmp_path / "run")
    before = {name: value.clone() for name, value in session.network.state_dict().items()}
    state = torch.get_rng_state()
    _warm_up._warm_up(session, stage)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in session.network.parameters())
    for name, value in session.network.state_dict().items():
        assert torch.equal(value.cpu(), before[name]), name


def test_on_a_gpu_the_images_are_decoded_meanwhile(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, stage = begin(recipe, tmp_path / "run")
    done: list[object] = []
    monkeypatch.setattr(_warm_up, "_warm_up", lambda *args: done.append(args))
    decode_and_warm_up(session, stage)
    assert len(done) == ON_GPU
    decode_and_warm_up(
        session, ResolvedStage(**{**vars(stage), "recipe": recipe.changed(train={"freeze": ["features"]})})
    )
    assert len(done) == ON_GPU
    session.close()


def test_statistics_stay_if_memory_runs_out(recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, stage = begin(recipe, tmp_path / "run")
    before = {name: value.clone() for name, value in session.network.state_dict().items()}

    def run_out(*_: object) -> None:
        raise torch.OutOfMemoryError

    with monkeypatch.context() as during:
        during.setattr(_warm_up, "cross_entropy", run_out)
        with pytest.raises(torch.OutOfMemoryError):
            _warm_up._warm_up(session, stage)
    for name, value in session.network.state_dict().items():
        assert torch.equal(value.cpu(), before[name]), name
