"""Sweep: train a grid of settings, one training after another."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from covpool._errors import CovpoolError
from covpool._progress import ignore
from covpool.engine.training import Event, changed_settings
from covpool.recipe import RECIPE_FILE, Recipe, read_recipe
from covpool.studies._runs import folder_name, read_end, train_or_resume
from covpool.studies.sweep._axes import Point, grid, read_axes

Status = Literal["finished", "failed"]
METRICS = ("top1", "top3", "top5", "loss")
# Trainings run one after another on one device. To run several at once, call `covpool train` several times.
ONE_DEVICE = "devices.devices=1"


@dataclass(frozen=True)
class Outcome:
    """The result of one training of a sweep.

    Attributes:
        point: Settings on the axes.
        run: Folder of the run.
        metrics: Result on the test set, as in `covpool.engine.training.Result`: top1, top3, top5, loss.
        seconds: Time of the training.
        failed: Why there are no metrics.
    """

    point: Point
    run: Path
    metrics: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    failed: str = ""

    @property
    def status(self) -> Status:
        """Whether the training finished or failed."""
        return "failed" if self.failed else "finished"


@dataclass(frozen=True)
class PlannedTraining:
    """A training to run."""

    point: Point
    recipe: Recipe
    run: Path


def plan(source: str | Path, settings: Sequence[str], folder: Path) -> list[PlannedTraining]:
    """Plan all trainings of a sweep, and check every recipe before the first training begins.

    Args:
        source: Recipe, as for `read_recipe`.
        settings: Settings "key=value", or "key=[a, b]" for values to try.
        folder: Folder of the sweep, with one folder per training in it.

    >>> import tempfile
    >>> recipe = Path(tempfile.mkdtemp(), "mine.toml")
    >>> _ = recipe.write_text('model.backbone = "resnet18"')
    >>> [planned.run.name for planned in plan(recipe, ["pool.iterations=[3, 5]", "train.epochs=1"], Path("runs"))]
    ['pool.iterations=3', 'pool.iterations=5']
    """
    axes, fixed = read_axes(settings)
    if not axes:
        raise CovpoolError("a sweep needs a setting with several values, as in pool.iterations=[1,3,5] or seed=[0,1,2]")
    planned = []
    for point in grid(axes):
        own = [f"{key}={value}" for key, value in point.items()]
        recipe = read_recipe(source, [ONE_DEVICE, *fixed, *own])
        planned.append(PlannedTraining(point, recipe, folder / folder_name(own)))
    for one in planned:
        _check_same(one)
    return planned


def sweep(
    planned: Sequence[PlannedTraining],
    *,
    on_run: Callable[[int, PlannedTraining], None] = ignore,
    on_event: Callable[[Event], None] = ignore,
) -> Iterator[Outcome]:
    """Run all trainings. Finished ones are skipped and interrupted ones are resumed.

    Args:
        planned: Trainings of `plan`.
        on_run: Called before each training, with its number.
        on_event: Called with the events of the trainings, as in `train`.

    Yields:
        The outcome of each training. If one fails, its outcome says why and the others go on.

    Raises:
        Stopped: Ctrl-C was pressed, and the state was saved.
    """
    for number, one in enumerate(planned):
        failed = ""
        if read_end(one.run) is None:
            on_run(number, one)
            failed = train_or_resume(one.recipe, one.run, on_event)
        yield Outcome(one.point, one.run, failed=failed) if failed else _finished(one)


def _finished(one: PlannedTraining) -> Outcome:
    end = read_end(one.run)
    assert end is not None
    return Outcome(one.point, one.run, {key: end[key] for key in METRICS if key in end}, end["seconds"])


def _check_same(one: PlannedTraining) -> None:
    """Refuse a folder that holds a training with other settings."""
    if not (one.run / RECIPE_FILE).is_file():
        return
    kept = read_recipe(one.run / RECIPE_FILE)
    if changed_settings(kept, one.recipe) or _root(kept) != _root(one.recipe):
        raise CovpoolError(f"{one.run} holds a training with other settings: name another --out, or remove it")


def _root(recipe: Recipe) -> Path:
    return Path(recipe.data.root).expanduser().resolve()
