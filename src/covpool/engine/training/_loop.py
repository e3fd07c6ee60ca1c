"""Training: from a recipe to a folder with checkpoints and a log."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lightning_fabric import Fabric

from covpool._errors import CovpoolError
from covpool._progress import ignore
from covpool.data.sets import open_data
from covpool.engine._devices import is_sharded, make_fabric, reproducible, reusing_memory
from covpool.engine._same_split import check_same_split, split_of_weights, warn_of_seen_validation
from covpool.engine.evaluation._metrics import Part
from covpool.engine.training._captured_step import report_not_captured, why_not_captured
from covpool.engine.training._interrupt import StopRequests
from covpool.engine.training._lost_process import naming_lost_processes
from covpool.engine.training._pool_init import init_pool_from_data
from covpool.engine.training._run_folder import (
    check_run_folder,
    check_writable,
    claim_run_folder,
    remove_partial_files,
)
from covpool.engine.training._run_lock import RunLock
from covpool.engine.training._same_recipe import resumed_recipe
from covpool.engine.training._session import OnEvent, Session
from covpool.engine.training._stage import StageTraining
from covpool.engine.training._state import STATE_FILE, TrainingPosition, load_state
from covpool.engine.training._trained_on import check_same_data
from covpool.engine.training._warm_up import decode_and_warm_up
from covpool.io import is_checkpoint, read_checkpoint
from covpool.recipe import Recipe, check_recipe, resolve_stages, steps_until, total_epochs, total_steps


@dataclass(frozen=True)
class Result:
    """The result of a training.

    Attributes:
        run: The folder of the run.
        epochs: Epochs completed.
        metrics: Result on the test set: loss, top1, top3, top5. With a validation set it is that of the epoch chosen on
            it, else that of the last epoch.
        epoch: The epoch of these metrics.
        best: Top-1 accuracy of the best epoch, on the images that it was chosen on.
        best_epoch: The best epoch.
        best_on: Images that the best epoch was chosen on. On "test", `best` is too optimistic to report.
        seconds: Training time of all sessions together.
    """

    run: Path
    epochs: int
    metrics: dict[str, float] = field(default_factory=dict)
    epoch: int = 0
    best: float = -1.0
    best_epoch: int = 0
    best_on: Part = "test"
    seconds: float = 0.0


def train(recipe: Recipe, run: Path, *, resume: bool = False, on_event: OnEvent = ignore) -> Result:
    """Train the network of a recipe, or resume its training.

    Under torchrun every process calls this function. It writes to the folder of the run: recipe.toml (every setting),
    log.jsonl, tensorboard/, last.safetensors and best.safetensors (checkpoints), scores.safetensors (test scores of the
    checkpoint that is the result) and state.pt (to resume from).

    Args:
        recipe: The recipe, from `read_recipe`.
        run: The folder of the run.
        resume: Resume from the state in the folder. The result is the same as if the run had never stopped.
        on_event: Receives events (steps, epochs, broken images) in the first process, as dicts with "event" and "step".

    Raises:
        Stopped: Ctrl-C was pressed, and the state has been saved.
    """
    check_recipe(recipe, here=True)
    fabric = make_fabric(recipe.devices, recipe.train.precision)
    fabric.launch()
    _check_strategy(fabric, recipe)
    lock = RunLock(run)
    try:
        _in_first_process(fabric, lambda: _take(lock, run, resume=resume))
        with naming_lost_processes(fabric, run), reusing_memory(fabric.device):
            return _train(fabric, recipe, run, on_event, resume=resume)
    finally:
        lock.release()


def _take(lock: RunLock, run: Path, *, resume: bool) -> None:
    """Make this process the only owner of the folder, and check that a run can use it."""
    if resume:
        check_run_folder(run, resume=True)
    check_writable(run)
    lock.take()
    check_run_folder(run, resume=resume)


def _train(fabric: Fabric, recipe: Recipe, run: Path, on_event: OnEvent, *, resume: bool) -> Result:
    is_saved = resume and (run / STATE_FILE).is_file()  # a run killed before its first state starts over
    restored = load_state(run / STATE_FILE) if is_saved else None
    if restored is None:
        recipe = recipe.changed(data=split_of_weights(recipe))
    elif restored.recipe is not None:
        recipe = resumed_recipe(Recipe(**restored.recipe), recipe)
    splits = open_data(recipe.data)
    if restored is not None:
        before, root = restored.data, recipe.data.root
        _in_first_process(fabric, lambda: check_same_data(before, splits, root))
        _check_position(restored.position, recipe, len(splits.train))
    elif recipe.init.weights and is_checkpoint(recipe.init.weights):
        start = read_checkpoint(recipe.init.weights)
        check_same_split(start, recipe.data, splits)
        warn_of_seen_validation(start, splits)
    session = Session(fabric, recipe, run, splits, on_event, restored)
    recipe = session.recipe
    # Files are written last, so that a mistake in the data, the network or the optimizer leaves none.
    _in_first_process(fabric, lambda: remove_partial_files(run) if resume else claim_run_folder(run, recipe))
    try:
        session.begin()
        steps = total_steps(recipe, len(splits.train))
        with (
            StopRequests(session.report_stopping) as requests,
            reproducible(recipe.train.deterministic, steps=steps),
        ):
            stages = [stage for stage in resolve_stages(recipe) if session.position.epoch < stage.end]
            if stages:
                decode_and_warm_up(session, stages[0])
            if restored is None:
                init_pool_from_data(session, requests)
            for stage in stages:
                StageTraining(session, stage, requests).run()
        position = session.position
        metrics, epoch = session.conclude()
        best = {"best": position.best, "best_epoch": position.best_epoch, "best_on": session.part}
        found = {"result_epoch": epoch, **best, "seconds": position.seconds}
        session.emit({"event": "end", "epoch": position.epoch, **metrics, **found})
    finally:
        session.close()
    best_epoch, part = position.best_epoch, session.part
    return Result(run, position.epoch, metrics, epoch, position.best, best_epoch, part, position.seconds)


def _check_strategy(fabric: Fabric, recipe: Recipe) -> None:
    if is_sharded(fabric) and len(recipe.stages) > 1:
        raise CovpoolError(
            "several stages do not work with devices.strategy=fsdp: train them as separate runs, each with the "
            "checkpoint of the one before as init.weights"
        )
    if recipe.train.sync_norms and fabric.device.type != "cuda":
        raise CovpoolError("`train.sync_norms` works on GPUs only: leave it out")
    reason = why_not_captured(fabric, recipe.train)
    if recipe.train.graph is True and reason:
        report_not_captured(recipe.train, reason)


def _check_position(position: TrainingPosition, recipe: Recipe, images: int) -> None:
    """Refuse a saved position that the training never reaches: it would end at once, or skip steps."""
    begun, next_begun = (steps_until(recipe, images, epoch) for epoch in (position.epoch, position.epoch + 1))
    in_epoch = position.step_in_epoch
    is_inside = position.epoch <= total_epochs(recipe) and (in_epoch == 0 or in_epoch < next_begun - begun)
    if not is_inside or position.step != begun + in_epoch:
        raise CovpoolError(
            f"{STATE_FILE} is at step {position.step}, {in_epoch} steps into epoch {position.epoch + 1}, where this "
            "training never is, so it is damaged: start a new run"
        )


def _in_first_process(fabric: Fabric, act: Callable[[], None]) -> None:
    """Run `act` in the first process; if it fails, all processes raise its error."""
    failure: Exception | None = None
    if fabric.is_global_zero:
        try:
            act()
        except Exception as error:  # the others wait for the broadcast, whatever it is
            failure = error
    problem = fabric.broadcast("" if failure is None else str(failure) or type(failure).__name__)
    if failure is not None:
        raise failure
    if problem:
        raise CovpoolError(problem)
