"""Sweep: the trainings of a grid of settings, one after another."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from covpool._errors import CovpoolError
from covpool.engine.training import LOG_FILE, Event, ignore, read_log, train
from covpool.recipe import RECIPE_FILE, Devices, Recipe, read_recipe
from covpool.studies.sweep._axes import Point, grid, read_axes

Status = Literal["finished", "failed"]
METRICS = ("top1", "top3", "top5", "loss", "best")
# One after another on one device: several at once are several calls of `covpool train`.
ONE_DEVICE = "devices.devices=1"


@dataclass(frozen=True)
class Outcome:
    """What came of one training of a sweep.

    Attributes:
        point: its settings on the axes.
        run: its folder.
        metrics: of the last evaluation: top1, top3, top5, loss; and best, the best epoch's top-1.
        seconds: it took.
        failed: why there are none.
    """

    point: Point
    run: Path
    metrics: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    failed: str = ""

    @property
    def status(self) -> Status:
        return "failed" if self.failed else "finished"


@dataclass(frozen=True)
class Planned:
    """A training that is to be made."""

    point: Point
    recipe: Recipe
    run: Path


def plan(source: str | Path, settings: Sequence[str], folder: Path) -> list[Planned]:
    """All trainings of a sweep, every recipe checked before the first begins.

    Args:
        source: the recipe, see `read_recipe`.
        settings: "key=value", or "key=[a, b]" for values to try.
        folder: of the sweep; every training has one in it.

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
        recipe = read_recipe(source, [ONE_DEVICE, *fixed, *(f"{key}={value}" for key, value in point.items())])
        planned.append(Planned(point, recipe, folder / folder_name(point)))
    for one in planned:
        _check_same(one)
    return planned


def sweep(
    planned: Sequence[Planned],
    *,
    on_run: Callable[[int, Planned], None] = lambda number, planned: None,
    on_event: Callable[[Event], None] = ignore,
) -> Iterator[Outcome]:
    """Make all trainings; what is finished is not made again, what was interrupted goes on.

    Args:
        planned: of `plan`.
        on_run: is told before each training, with its number.
        on_event: of the trainings, see `train`.

    Yields:
        what came of each. One that fails says why, and the others go on.

    Raises:
        Stopped: by Ctrl-C, after the state was saved.
    """
    for number, one in enumerate(planned):
        found = finished(one)
        if found is None:
            on_run(number, one)
            found = _train(one, on_event)
        yield found


def finished(one: Planned) -> Outcome | None:
    """What came of a training that has reached its end; None before."""
    end = next((event for event in read_log(one.run / LOG_FILE) if event["event"] == "end"), None)
    if end is None:
        return None
    metrics: dict[str, float] = {key: end[key] for key in METRICS if key in end}
    return Outcome(one.point, one.run, metrics, end["seconds"])


def folder_name(point: Point) -> str:
    """The settings in the name of a folder, another for every point; what is special in a path is written as in a URL.

    >>> folder_name({"init.weights": "nets/a.pth", "seed": "0"})
    'init.weights=nets%2Fa.pth,seed=0'
    """
    return ",".join(f"{key}={quote(value, safe=',+[]')}" for key, value in point.items())


def _train(one: Planned, on_event: Callable[[Event], None]) -> Outcome:
    try:
        train(one.recipe, one.run, resume=(one.run / RECIPE_FILE).is_file(), on_event=on_event)
    except Exception as error:
        return Outcome(one.point, one.run, failed=f"{type(error).__name__}: {error}".splitlines()[0])
    found = finished(one)
    assert found is not None
    return found


def _check_same(one: Planned) -> None:
    """Refuse a folder in which a training with other settings lies."""
    if (one.run / RECIPE_FILE).is_file() and _essence(read_recipe(one.run / RECIPE_FILE)) != _essence(one.recipe):
        raise CovpoolError(f"{one.run} holds a training with other settings: name another --out, or remove it")


def _essence(recipe: Recipe) -> Recipe:
    """A recipe without what its result does not depend on."""
    data = {"root": str(Path(recipe.data.root).expanduser().resolve()), "workers": 0}
    return recipe.changed(data=data, devices=Devices(), train={"log_every": 1, "save_every": 0})
