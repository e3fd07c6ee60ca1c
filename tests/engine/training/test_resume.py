"""A killed training resumes to the same end, bit for bit."""

import os
import random
import shutil
import signal
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from covpool._records import read_lines
from covpool.engine.training._interrupt import Stopped
from covpool.engine.training._log import Event
from covpool.engine.training._loop import train
from covpool.recipe import to_toml
from covpool.recipe._schema import Init, Model, Pool, Recipe, Stage
from tiny import finish, make_tree, start, tiny_recipe, untimed_log

KILLS = 20


class PowerCutError(Exception):
    """Simulates a power cut."""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """A recipe with everything that has a state: momentum, EMA, random mixing and crops, warm-up, batch norms."""
    return tiny_recipe(
        make_tree(tmp_path_factory.mktemp("images") / "tree"),
        train={"epochs": 3, "ema": 0.9, "save_every": 3, "clip_norm": 1.0},
        augment={"mixup": 0.2},
        init={"reduction": "pca"},
        schedule={"name": "cosine", "warmup_epochs": 1.0},
    )


@pytest.fixture(scope="module")
def whole(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that was not interrupted."""
    run = tmp_path_factory.mktemp("whole") / "run"
    train(recipe, run)
    return run


def train_until(recipe: Recipe, run: Path, **when: object) -> None:
    """Abort a training at the event with these values, then resume it."""

    def cut(event: Event) -> None:
        if all(event.get(key) == value for key, value in when.items()):
            raise PowerCutError

    with pytest.raises(PowerCutError):
        train(recipe, run, on_event=cut)
    train(recipe, run, resume=True)


def assert_same_end(one: Path, other: Path) -> None:
    assert untimed_log(one) == untimed_log(other)
    for name in ("last.safetensors", "best.safetensors", "scores.safetensors"):
        first, second = load_file(one / name), load_file(other / name)
        assert first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)
    states = [torch.load(run / "state.pt", weights_only=True) for run in (one, other)]
    for key in states[0]["model"]:
        assert torch.equal(states[0]["model"][key], states[1]["model"][key]), key
    for key, held in states[0]["optimizer"]["state"].items():
        assert torch.equal(held["momentum_buffer"], states[1]["optimizer"]["state"][key]["momentum_buffer"])


def test_an_optimizer_without_state_is_saved_and_resumed(recipe: Recipe, tmp_path: Path) -> None:
    plain = recipe.changed(optimizer={"momentum": 0.0}, train={"epochs": 1, "save_every": 1})
    train(plain, tmp_path / "whole")
    train_until(plain, tmp_path / "cut", event="tick", step=3)
    assert_same_end(tmp_path / "whole", tmp_path / "cut")


def test_killed_in_mid_epoch(recipe: Recipe, whole: Path, tmp_path: Path) -> None:
    killed, written = tmp_path / "killed", tmp_path / "recipe.toml"
    written.write_text(to_toml(recipe))
    process = start("train", written, "--run", killed, "--no-report")
    deadline = time.monotonic() + 60
    while not any(event["step"] >= 6 for event in read_lines(killed / "log.jsonl")):  # of 4 steps per epoch
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert read_lines(killed / "log.jsonl")[-1]["event"] != "end", "the run ended before it was killed"
    assert "test top-1" in finish(start("train", "--resume", killed, "--no-report"))
    assert_same_end(whole, killed)


@pytest.mark.parametrize("step", [1, 3, 4, 5, 11])
def test_killed_at_any_step(recipe: Recipe, whole: Path, tmp_path: Path, step: int) -> None:
    """Before the first saved state, at one, at the end of an epoch, in the middle of one, and just before the end."""
    train_until(recipe, tmp_path / "killed", event="tick", step=step)
    assert_same_end(whole, tmp_path / "killed")


def train_in_a_fork(recipe: Recipe, run: Path) -> int:
    """Start or resume a training in a forked process, and return its number."""
    child = os.fork()
    if child == 0:
        os.setsid()
        try:
            train(recipe, run, resume=(run / "recipe.toml").exists())
        except BaseException:
            os._exit(1)
        os._exit(0)
    return child


@pytest.mark.long
def test_killed_at_random_moments(recipe: Recipe, whole: Path, tmp_path: Path) -> None:
    """Real kills; a run that gets to its end is compared, and the next one begins."""
    draw, kills, ended = random.Random(0), 0, 0
    while kills < KILLS or not ended:
        run = tmp_path / str(ended)
        child = train_in_a_fork(recipe, run)
        deadline = time.monotonic() + (draw.uniform(0.05, 1.5) if kills < KILLS else 120)
        status = None
        while status is None and time.monotonic() < deadline:
            done, found = os.waitpid(child, os.WNOHANG)
            status = os.waitstatus_to_exitcode(found) if done else None
            time.sleep(0.01)
        if status is None:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            kills += 1
            continue
        assert status == 0
        assert_same_end(whole, run)
        ended += 1


def test_killed_between_log_and_state(recipe: Recipe, whole: Path, tmp_path: Path) -> None:
    """The lines of an epoch whose state was not saved are not in the log twice."""
    train_until(recipe, tmp_path / "killed", event="epoch", epoch=2)
    assert_same_end(whole, tmp_path / "killed")


def test_stages_are_resumed_in_the_right_stage(recipe: Recipe, tmp_path: Path) -> None:
    stages = (Stage(epochs=1, freeze=("features",), lr=0.1), Stage(epochs=2, freeze=(), lr=0.01, batch_size=24))
    staged = recipe.changed(stages=stages)
    train(staged, tmp_path / "whole")
    train_until(staged, tmp_path / "killed", event="tick", step=7)  # 4 steps in the first stage, then 2 per epoch
    assert_same_end(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.parametrize("frozen", [(), ("features",)])
def test_a_stage_resumed_at_its_start_has_a_new_optimizer(
    recipe: Recipe, tmp_path: Path, frozen: tuple[str, ...]
) -> None:
    staged = recipe.changed(stages=(Stage(epochs=1, freeze=frozen, lr=0.1), Stage(epochs=2, freeze=(), lr=0.01)))
    train(staged, tmp_path / "whole")
    train_until(staged, tmp_path / "killed", event="tick", step=5)  # the only state is that after the first stage
    assert_same_end(tmp_path / "whole", tmp_path / "killed")


def test_interrupted_by_the_user(recipe: Recipe, whole: Path, tmp_path: Path) -> None:
    """The first Ctrl-C finishes the step, saves the state, and says how to resume."""
    stopped = tmp_path / "stopped"

    def interrupt(event: Event) -> None:
        if event["event"] == "tick" and event["step"] == 5:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Stopped, match=f"stopped at step 5: `covpool train --resume {stopped}`"):
        train(recipe, stopped, on_event=interrupt)
    assert torch.load(stopped / "state.pt", weights_only=True)["progress"]["step"] == 5
    train(recipe, stopped, resume=True)
    assert_same_end(whole, stopped)


def test_interrupted_while_a_cache_is_filled(recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to save, so the run stops before all images are decoded, when new and when resumed."""
    monkeypatch.setattr("covpool.data.pipeline._decoded.AT_ONCE", 8)
    cached = recipe.changed(data={"cache": "ram"})
    train(cached, tmp_path / "whole")
    run, decoded = tmp_path / "stopped", []

    def interrupt(event: Event, when: str = "caching") -> None:
        if event["event"] == when:
            decoded.append(event.get("done"))
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Stopped, match=f"stopped at step 0: `covpool train --resume {run}`"):
        train(cached, run, on_event=interrupt)
    with pytest.raises(Stopped, match="stopped at step 1:"):
        train(cached, run, resume=True, on_event=partial(interrupt, when="tick"))
    with pytest.raises(Stopped, match="stopped at step 1:"):
        train(cached, run, resume=True, on_event=interrupt)
    assert decoded == [8, None, 8]
    train(cached, run, resume=True)
    assert_same_end(tmp_path / "whole", run)


def stop_after_an_epoch(recipe: Recipe, run: Path, *, step: int = 4) -> None:
    """Abort a run that has saved the state of its first epoch, of `step` steps."""

    def cut(event: Event) -> None:
        if event["event"] == "tick" and event["step"] == step + 1:
            raise PowerCutError

    with pytest.raises(PowerCutError):
        train(recipe, run, on_event=cut)


def test_a_run_resumes_only_with_its_own_data(recipe: Recipe, tmp_path: Path) -> None:
    run, root = tmp_path / "run", make_tree(tmp_path / "tree", train=15)
    stop_after_an_epoch(recipe, run)
    written = (run / "state.pt").read_bytes()
    moved = recipe.changed(data={"root": str(root)})
    with pytest.raises(ValueError, match="not those the run was started with: 45 training images instead of 48"):
        train(moved, run, resume=True)
    for part in ("train", "test"):
        (root / part / "red").rename(root / part / "rose")
    with pytest.raises(ValueError, match="the class 'red' is missing, the class 'rose' is new"):
        train(moved, run, resume=True)
    assert (run / "state.pt").read_bytes() == written


def test_an_edited_recipe_is_refused(recipe: Recipe, tmp_path: Path) -> None:
    run = tmp_path / "run"
    stop_after_an_epoch(recipe, run)
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    with pytest.raises(ValueError, match=r"started with: optimizer.lr = 0.5, and was 0.05: undo the change"):
        train(recipe.changed(optimizer={"lr": 0.5}), run, resume=True)
    assert {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()} == before


def test_images_that_were_replaced_are_refused(recipe: Recipe, tmp_path: Path) -> None:
    run, root = tmp_path / "run", make_tree(tmp_path / "tree", train=4)
    own = recipe.changed(data={"root": str(root)})
    stop_after_an_epoch(own, run, step=1)
    image = root / "train" / "red" / "0.png"
    image.write_bytes(image.read_bytes() + b"more")
    with pytest.raises(ValueError, match="some training images have another size: they were replaced"):
        train(own, run, resume=True)


def test_a_live_run_is_neither_resumed_nor_replaced(recipe: Recipe, tmp_path: Path) -> None:
    run, refused = tmp_path / "run", []

    def disturb(event: Event) -> None:
        if event["event"] == "tick" and event["step"] in (1, 5):  # before and after the first saved state
            for resume in (True, False):
                with pytest.raises(ValueError, match=f"run is in use by process {os.getpid()} on"):
                    train(recipe, run, resume=resume)
                refused.append(resume)

    train(recipe.changed(train={"epochs": 2}), run, on_event=disturb)
    assert len(refused) == 4 and read_lines(run / "log.jsonl")[-1]["event"] == "end"
    assert not list(run.glob(".*"))


def test_states_without_network_and_data_are_resumed(recipe: Recipe, whole: Path, tmp_path: Path) -> None:
    stop_after_an_epoch(recipe, tmp_path / "killed")
    path = tmp_path / "killed" / "state.pt"
    state = torch.load(path, weights_only=True)
    torch.save({key: value for key, value in state.items() if key not in ("network", "data", "recipe")}, path)
    train(recipe, tmp_path / "killed", resume=True)
    assert_same_end(whole, tmp_path / "killed")


@pytest.mark.parametrize("is_named", [True, False], ids=["network of the recipe", "network of the checkpoint"])
def test_initial_weights_are_not_needed_to_resume(recipe: Recipe, whole: Path, tmp_path: Path, is_named: bool) -> None:
    weights = shutil.copy(whole / "last.safetensors", tmp_path / "first.safetensors")
    started = recipe.changed(init=Init(weights=str(weights)))
    if not is_named:
        started = started.changed(model=Model(), pool=Pool())
    train(started, tmp_path / "whole")
    stop_after_an_epoch(started, tmp_path / "killed")
    weights.unlink()
    train(started, tmp_path / "killed", resume=True)
    assert_same_end(tmp_path / "whole", tmp_path / "killed")


def test_the_speed_counts_the_time_before_a_resume(recipe: Recipe, tmp_path: Path) -> None:
    """Stopped and resumed inside a logging window, whose first step took long."""
    run, slow = tmp_path / "run", 0.5
    slowed = recipe.changed(train={"epochs": 1, "log_every": 4, "save_every": 2})

    def stop(event: Event) -> None:
        if event["event"] == "tick":
            time.sleep(slow)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Stopped, match="at step 1"):
        train(slowed, run, on_event=stop)
    train(slowed, run, resume=True)
    (step,) = (event for event in read_lines(run / "log.jsonl") if event["event"] == "step")
    (epoch,) = (event for event in read_lines(run / "log.jsonl") if event["event"] == "epoch")
    assert 48 / step["images_per_s"] > slow and epoch["seconds"] > slow


@pytest.mark.long
@pytest.mark.parametrize("when", [{"event": "tick", "step": 7}, {"event": "epoch", "epoch": 3}], ids=str)
def test_the_choice_on_validation_images_survives_a_kill(
    recipe: Recipe, tmp_path: Path, when: dict[str, object]
) -> None:
    validated = recipe.changed(data={"validation_fraction": 0.25})  # three steps per epoch
    train(validated, tmp_path / "whole")
    train_until(validated, tmp_path / "killed", **when)
    assert_same_end(tmp_path / "whole", tmp_path / "killed")


def test_half_written_files_of_a_killed_run_are_removed(recipe: Recipe, tmp_path: Path) -> None:
    stop_after_an_epoch(recipe, tmp_path / "run")
    for name in (".state-0123abcd.pt", ".last-0123abcd.safetensors"):
        (tmp_path / "run" / name).touch()
    train(recipe, tmp_path / "run", resume=True)
    assert not list((tmp_path / "run").glob(".*"))


def test_a_finished_run_is_not_changed(recipe: Recipe, whole: Path) -> None:
    before = untimed_log(whole)
    assert train(recipe, whole, resume=True).metrics["top1"] == before[-1]["top1"]
    assert untimed_log(whole) == before
