"""Training: from a recipe to a folder with checkpoints and a log."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lightning.fabric import Fabric

from covpool._errors import CovpoolError
from covpool.data.sets import open_data
from covpool.engine._devices import is_sharded, make_fabric, reproducible
from covpool.engine.training import _log as log
from covpool.engine.training import _run_folder as folder
from covpool.engine.training import _state as state
from covpool.engine.training._interrupt import StopRequests
from covpool.engine.training._log import Event
from covpool.engine.training._pool_init import init_pool_from_data
from covpool.engine.training._session import OnEvent, Session
from covpool.engine.training._stage import StageTraining
from covpool.engine.training._trained_on import check_same_data
from covpool.io import remove_leftovers
from covpool.recipe import Recipe, check_recipe, resolve_stages


@dataclass(frozen=True)
class Result:
    """What came of a training."""

    run: Path
    epochs: int
    metrics: dict[str, float] = field(default_factory=dict)  # of the last evaluation: loss, top1, top3, top5
    best: float = -1.0  # top-1 of the best epoch
    best_epoch: int = 0
    seconds: float = 0.0


def ignore(event: Event) -> None:
    """For who does not want to be told."""


def train(recipe: Recipe, run: Path, *, resume: bool = False, on_event: OnEvent = ignore) -> Result:
    """Train the network of a recipe, or go on with it.

    Under torchrun every process calls this. In the folder of the run afterwards: recipe.toml (every setting),
    log.jsonl, tensorboard/, last.safetensors and best.safetensors (checkpoints), state.pt (from which to resume).

    Args:
        recipe: of `read_recipe`.
        run: the folder.
        resume: go on from the state saved there, with the same result as if the run had never stopped.
        on_event: is told of steps, epochs, broken pictures, in the first process: a dict with "event" and "step".

    Raises:
        Stopped: by Ctrl-C, after the state was saved.
    """
    check_recipe(recipe, here=True)
    fabric = make_fabric(recipe.devices, recipe.train.precision)
    fabric.launch()
    _check_strategy(fabric, recipe)
    _in_first(fabric, lambda: folder.check(run, resume=resume))
    splits = open_data(recipe.data)
    is_saved = resume and (run / state.STATE_FILE).is_file()  # a run killed before that starts over
    restored = state.load_state(run / state.STATE_FILE) if is_saved else None
    if restored is not None:
        check_same_data(restored.data, splits, recipe.data.root)
    session = Session(fabric, recipe, run, splits, on_event, restored)
    # Only now, so that a mistake in the data, the network or the optimizer leaves nothing behind.
    _in_first(fabric, lambda: _remove_leftovers(run) if resume else folder.claim(run, recipe))
    session.begin()
    try:
        with StopRequests(session.report_stopping) as requests, reproducible(recipe.train.deterministic):
            if restored is None:
                init_pool_from_data(session)
            for part in resolve_stages(recipe):
                if session.progress.epoch < part.end:
                    StageTraining(session, part, requests).run()
        progress = session.progress
        found = {"best": progress.best, "best_epoch": progress.best_epoch, "seconds": progress.seconds}
        session.emit({"event": "end", "epoch": progress.epoch, **progress.metrics, **found})
    finally:
        session.close()
    return Result(run, progress.epoch, progress.metrics, progress.best, progress.best_epoch, progress.seconds)


def _check_strategy(fabric: Fabric, recipe: Recipe) -> None:
    if is_sharded(fabric) and len(recipe.stages) > 1:
        raise CovpoolError(
            "several stages do not go with the strategy fsdp: train them one after another, with init.weights"
        )
    if recipe.train.sync_norms and fabric.device.type != "cuda":
        raise CovpoolError("`train.sync_norms` works on GPUs only: torch has no such batch norm for the CPU")


def _remove_leftovers(run: Path) -> None:
    for name in (state.STATE_FILE, log.LOG_FILE, folder.LAST_CHECKPOINT, folder.BEST_CHECKPOINT):
        remove_leftovers(run / name)


def _in_first(fabric: Fabric, act: Callable[[], None]) -> None:
    """The first process does something with the folder; where it cannot, all give up together."""
    problem = ""
    if fabric.is_global_zero:
        try:
            act()
        except (ValueError, OSError) as error:  # a folder that cannot be written is a problem of all, too
            problem = str(error)
    problem = fabric.broadcast(problem)
    if problem:
        raise CovpoolError(problem)
