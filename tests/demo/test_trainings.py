import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from covpool.demo import _folder as folder
from covpool.demo import _tiles as demo_tiles
from covpool.demo._trainings import Training, plan, train_all
from covpool.engine.training._log import LOG_FILE, Event, read_log


@pytest.fixture(scope="module")
def tiles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("tiles")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_tiles, "PHOTOGRAPHS", demo_tiles.PHOTOGRAPHS[:3])
        patch.setitem(demo_tiles.SPLITS, "train", replace(demo_tiles.SPLITS["train"], most=40))
        demo_tiles.write_tiles(root)
        yield root


def ignore(training: Training, event: Event) -> None:
    pass


def test_runs_differ_only_in_pool_learning_rate_and_seed(tmp_path: Path, tiles: Path) -> None:
    planned = plan(tmp_path, tiles, seeds=2)
    assert [(t.pool, t.seed) for t in planned] == [(p, s) for s in (0, 1) for p in ("avg", "cov", "bcnn", "isqrt")]
    assert {(t.recipe.pool.name, t.recipe.seed) for t in planned} == {(t.pool, t.seed) for t in planned}
    first = planned[0].recipe
    for table in ("data", "augment", "model", "schedule", "train", "evaluate", "devices", "init"):
        assert all(getattr(t.recipe, table) == getattr(first, table) for t in planned)


def test_finished_runs_are_kept_and_the_others_resumed(tmp_path: Path, tiles: Path) -> None:
    planned = plan(tmp_path, tiles, seeds=1, epochs=1)[:2]

    def stop(training: Training, event: Event) -> None:
        if training.pool == "cov" and event["event"] == "tick":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_all(planned, jobs=1, on_event=stop)
    assert [training.is_finished for training in planned] == [True, False]
    told: list[str] = []
    train_all(planned, jobs=1, on_event=lambda training, event: told.append(training.pool))
    assert set(told) == {"cov"}
    assert all(training.is_finished for training in planned)


def test_other_settings_in_the_same_folder_are_refused(tmp_path: Path, tiles: Path) -> None:
    train_all(plan(tmp_path, tiles, seeds=1, epochs=1)[:1], jobs=1, on_event=ignore)
    with pytest.raises(ValueError, match="other settings"):
        plan(tmp_path, tiles, seeds=1, epochs=2)
    moved = tmp_path.parent / "moved"
    tmp_path.rename(moved)
    assert plan(moved, tiles.parent, seeds=1, epochs=1)[0].is_finished


def test_interrupted_and_resumed_processes_give_the_same_results_as_one(tmp_path: Path, tiles: Path) -> None:
    alone, together = (plan(tmp_path / name, tiles, seeds=1, epochs=8)[:2] for name in ("alone", "together"))
    begun: list[Training] = []

    def interrupt(training: Training, event: Event) -> None:
        if event["event"] == "epoch" and not begun:
            begun.append(training)
            os.kill(os.getpid(), signal.SIGINT)  # reaches only this process

    with pytest.raises(KeyboardInterrupt):
        train_all(together, jobs=2, on_event=interrupt)
    assert not begun[0].is_finished and (begun[0].run / "state.pt").is_file()

    train_all(together, jobs=1, on_event=ignore)
    train_all(alone, jobs=1, on_event=ignore)
    assert [last_event(training) for training in together] == [last_event(training) for training in alone]


START_A_PROCESS_AND_WAIT = """
import multiprocessing, os, time
from concurrent.futures import ProcessPoolExecutor
from covpool.demo import _trainings as trainings
pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), trainings._begin_process, (None, None))
print(pool.submit(os.getpid).result(), flush=True)
pool.submit(time.sleep, 600).result()
"""


def test_processes_end_when_their_parent_is_killed() -> None:
    command = [sys.executable, "-c", START_A_PROCESS_AND_WAIT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
        ended, *_ = select.select([parent.stdout], [], [], 30)  # ready when the last writer has gone
        if not ended:
            os.kill(child, signal.SIGKILL)
        assert ended and not parent.stdout.read(), "the child process is still running"


def last_event(training: Training) -> dict[str, object]:
    """The last event of a run, without its duration."""
    *_, event = read_log(training.run / LOG_FILE)
    assert event.pop("seconds") > 0 and event["event"] == "end"
    return event


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ValueError, match="other files"):
        folder.prepare(tmp_path)
    with pytest.raises(ValueError, match="is a file"):
        folder.prepare(tmp_path / "letter.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
