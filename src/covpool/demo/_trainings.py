"""The runs of the demo: every pool with every seed, several at the same time, each on one thread."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from covpool._errors import CovpoolError
from covpool.engine.training import LOG_FILE, STATE_FILE, Event, Stopped, read_log, train
from covpool.recipe import RECIPE_FILE, Recipe, read_recipe

# The best of those in recipes/demo.toml for each pool, on the validation tiles and with other seeds than here.
LEARNING_RATES = {"avg": 0.3, "cov": 0.1, "bcnn": 0.3, "isqrt": 0.1}
BASELINE = "avg"


@dataclass(frozen=True)
class Training:
    """One pool with one seed, and the folder of its run."""

    pool: str
    seed: int
    recipe: Recipe
    run: Path

    @property
    def is_finished(self) -> bool:
        return any(event["event"] == "end" for event in read_log(self.run / LOG_FILE))

    @property
    def is_started(self) -> bool:
        return (self.run / LOG_FILE).exists() or (self.run / STATE_FILE).exists()


OnEvent = Callable[[Training, Event], None]


def plan(runs: Path, tiles: Path, *, seeds: int = 3, epochs: int | None = None) -> list[Training]:
    """Plan all runs, seed by seed. Runs that exist already must have the same settings.

    Args:
        runs: Folder that contains the folders of the runs.
        tiles: Folder of the tiles.
        seeds: Number of seeds for each pool.
        epochs: Number of epochs; None uses the recipe's.
    """
    settings = [f"data.root={tiles.resolve()}"] + ([] if epochs is None else [f"train.epochs={epochs}"])
    trainings = []
    for seed in range(seeds):
        for pool, lr in LEARNING_RATES.items():
            recipe = read_recipe("demo", [*settings, f"pool.name={pool}", f"optimizer.lr={lr}", f"seed={seed}"])
            trainings.append(Training(pool, seed, recipe, runs / f"{pool}-{seed}"))
            _check_same(trainings[-1])
    return trainings


def train_all(trainings: Sequence[Training], *, jobs: int, on_event: OnEvent) -> None:
    """Train all runs that are not finished. Stopped runs are resumed.

    Args:
        trainings: Runs from `plan`.
        jobs: Number of runs at the same time, each in its own process; 1 trains in this process. The results do not
            depend on it.
        on_event: Callback for the events of the runs.

    Raises:
        KeyboardInterrupt: After Ctrl-C, once the states are saved.
    """
    left = [training for training in trainings if not training.is_finished]
    if jobs == 1:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            for training in left:
                _train(training, on_event)
        finally:
            torch.set_num_threads(threads)
    elif left:
        _train_in_processes(left, min(jobs, len(left)), on_event)


def _check_same(training: Training) -> None:
    kept = training.run / RECIPE_FILE
    if not kept.is_file():
        return
    found = read_recipe(kept)
    if found.changed(data=training.recipe.data) != training.recipe:  # the folder may have moved
        raise CovpoolError(f"{training.run} has other settings: name another folder with --out, or remove that one")


def _train(training: Training, on_event: OnEvent) -> None:
    train(training.recipe, training.run, resume=training.is_started, on_event=lambda event: on_event(training, event))


def _train_in_processes(trainings: list[Training], jobs: int, on_event: OnEvent) -> None:
    context = multiprocessing.get_context("spawn")
    events = context.SimpleQueue()  # delivers all events of a run before its future completes
    stop = context.Event()
    listener = threading.Thread(target=_listen, args=(events, trainings, on_event), daemon=True)
    listener.start()
    with ProcessPoolExecutor(jobs, context, initializer=_begin_process, initargs=(events, stop)) as executor:
        futures = [executor.submit(_train_in_process, number, training) for number, training in enumerate(trainings)]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            stop.set()  # a signal may have reached this process only
            raise
    events.put(None)
    listener.join()


def _listen(events: Any, trainings: list[Training], on_event: OnEvent) -> None:
    """Pass on the events of the processes until None arrives."""
    while (message := events.get()) is not None:
        number, event = message
        on_event(trainings[number], event)


@dataclass
class Link:
    """The connection of a training process to its parent."""

    events: Any
    stop: Any


_links: list[Link] = []


def _begin_process(events: Any, stop: Any) -> None:
    _links.append(Link(events, stop))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a running training installs its own handler, which saves the state
    torch.set_num_threads(1)


def _end_with_parent() -> None:
    """End this process when its parent ends, even if the parent was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _train_in_process(number: int, training: Training) -> None:
    link = _links[0]
    if link.stop.is_set():
        raise Stopped(f"{training.run.name} was not started")
    is_stopping = False

    def send(_: Training, event: Event) -> None:
        nonlocal is_stopping
        link.events.put((number, dict(event)))
        is_stopping = is_stopping or event["event"] == "stopping"
        if link.stop.is_set() and not is_stopping:
            is_stopping = True
            signal.raise_signal(signal.SIGINT)  # makes the training save its state and stop

    _train(training, send)
