"""Whatever a state file says, a resume ends in one line or trains on; nothing else is read, imported or asked for."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import covpool
from covpool.engine.training._interrupt import Stopped
from covpool.engine.training._log import Event
from covpool.engine.training._loop import train
from covpool.engine.training._meter import NAMES
from covpool.recipe._schema import Recipe
from tiny import make_tree, tiny_recipe

VALUES = (None, -1, 10**12, float("nan"), "x", [], {}, ["x"], torch.zeros(2, 5), torch.zeros((), dtype=torch.int64))
DEPTHS = {"recipe": 2, "data": 3}  # the values of a recipe have tests of their own
DEPTH = 4
ALIKE = 2  # of many weights, so many are changed


class SavedError(Exception):
    """Ends a training after its first state."""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    tree = make_tree(tmp_path_factory.mktemp("images") / "tree")
    return tiny_recipe(tree, train={"epochs": 2, "ema": 0.9}, optimizer={"head_factor": 5.0})


@pytest.fixture(scope="module")
def run(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one epoch to go."""

    def stop(event: Event) -> None:
        if event["event"] == "tick" and event["step"] > saved_after:
            raise SavedError

    folder = tmp_path_factory.mktemp("run") / "run"
    saved_after = 4
    with pytest.raises(SavedError):
        train(recipe, folder, on_event=stop)
    return folder


def places(part: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to the values of a state: all of its parts, and some of the many weights."""
    if path:
        yield path
    if path and len(path) == DEPTHS.get(path[0], DEPTH):
        return
    items = list(part.items()) if isinstance(part, dict) else list(enumerate(part)) if isinstance(part, list) else []
    if items and (path[:1] in (("model",), ("ema",)) or path == ("optimizer", "state")):
        items = items[:ALIKE]
    for key, value in items:
        yield from places(value, (*path, key))


def changed(state: dict[str, Any], path: tuple[Any, ...], value: object) -> dict[str, Any]:
    state = copy.deepcopy(state)
    part = state
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return state


def resume(recipe: Recipe, run: Path, folder: Path, state: dict[str, Any]) -> Exception | None:
    """The error of a resume with this state; errors that keep a traceback are not caught."""
    folder.mkdir(exist_ok=True)
    for name in ("recipe.toml", "log.jsonl"):
        (folder / name).write_bytes((run / name).read_bytes())
    torch.save(state, folder / "state.pt")
    try:
        train(recipe, folder, resume=True)
    except (covpool.CovpoolError, OSError, Stopped) as error:
        return error
    return None


def check(recipe: Recipe, run: Path, folder: Path, every: int, part: str = "") -> int:
    """Try every so many of the changes, perhaps of one part alone; returns how many were refused."""
    state = torch.load(run / "state.pt", weights_only=True)
    assert resume(recipe, run, folder, state) is None, "the state as it was saved"
    cases = [(path, value) for path in places(state) for value in VALUES if path[0] == part or not part]
    refused = 0
    for path, value in cases[::every]:
        try:
            error = resume(recipe, run, folder, changed(state, path, value))
        except Exception as fault:
            raise AssertionError(f"{path} = {value!r} is a traceback: {fault!r}") from fault
        if error is not None:
            refused += 1
            assert str(error).strip() and (path[0] == "recipe" or "\n" not in str(error)), (path, value, str(error))
    return refused


def test_some_changes_of_a_state(recipe: Recipe, run: Path, tmp_path: Path) -> None:
    assert check(recipe, run, tmp_path / "run", every=41) > 10


@pytest.mark.long
def test_all_changes_of_a_state(recipe: Recipe, run: Path, tmp_path: Path) -> None:
    assert check(recipe, run, tmp_path / "run", every=1) > 500


@pytest.mark.long
def test_all_changes_of_a_position_within_an_epoch(recipe: Recipe, tmp_path: Path) -> None:
    """Its sums and times are counted on."""

    def stop(event: Event) -> None:
        if event["event"] == "tick" and event["step"] == 3:
            raise SavedError

    recipe = recipe.changed(train={"epochs": 1, "save_every": 2})
    with pytest.raises(SavedError):
        train(recipe, tmp_path / "stopped", on_event=stop)
    state = torch.load(tmp_path / "stopped" / "state.pt", weights_only=True)
    assert state["progress"]["step_in_epoch"] == 2
    assert check(recipe, tmp_path / "stopped", tmp_path / "run", every=1, part="progress") > 100


@pytest.mark.parametrize(
    "place", [{"epoch": 10**12}, {"step": 3}, {"step_in_epoch": 4}, {"step": 5, "step_in_epoch": 1, "epoch": 2}]
)
def test_a_position_where_the_training_never_is_is_refused(
    recipe: Recipe, run: Path, tmp_path: Path, place: dict[str, int]
) -> None:
    state = torch.load(run / "state.pt", weights_only=True)
    progress = {**state["progress"], **place}
    if progress["step_in_epoch"]:
        progress |= {"sums": [1.0] * len(NAMES), "logged": [1.0] * len(NAMES)}
    error = resume(recipe, run, tmp_path / "run", {**state, "progress": progress})
    assert error is not None and "where this training never is" in str(error)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("backbone", "hf-hub:someone/model"),
        ("backbone_options", {"checkpoint_path": "evil.pth"}),
        ("backbone_options", {"pretrained": True}),
        ("pool_options", {"backbone_weights": "evil.pth"}),
        ("num_classes", 10**7),
    ],
    ids=str,
)
def test_the_network_of_a_state_is_checked_as_that_of_a_checkpoint(
    recipe: Recipe, run: Path, tmp_path: Path, key: str, value: object
) -> None:
    state = torch.load(run / "state.pt", weights_only=True)
    error = resume(recipe, run, tmp_path / "run", changed(state, ("network", key), value))
    assert isinstance(error, covpool.CovpoolError) and "state.pt" in str(error)
