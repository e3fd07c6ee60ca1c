"""The trainings behind an item: one per row, data set and split, and the pre-training that they start from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from covpool._errors import CovpoolError
from covpool.recipe import Recipe, read_recipe
from covpool.studies._runs import folder_name, read_end
from covpool.studies.paper._items import NOT_TRAINED, Column, Item, Row


@dataclass(frozen=True)
class Training:
    """A training of the paper.

    Attributes:
        recipe: Name of the recipe, combined with its data set.
        settings: Settings on top of it.
    """

    recipe: str
    settings: tuple[str, ...] = ()

    def run(self, out: Path) -> Path:
        """Return the folder of its run. Without settings it is the folder that `covpool train` uses.

        >>> str(Training("finetune-vgg16+dtd", ("data.split=3",)).run(Path("runs")))
        'runs/finetune-vgg16+dtd,data.split=3'
        """
        return out / folder_name([self.recipe, *self.settings])

    def result(self, out: Path) -> dict[str, float] | None:
        """Return the result of the finished training; None if it is not finished."""
        return read_end(self.run(out))


@dataclass(frozen=True)
class PaperTraining:
    """A training that can be run: its recipe with the data and the weights that it starts from."""

    training: Training
    recipe: Recipe
    run: Path

    @property
    def is_finished(self) -> bool:
        """Whether the run has ended."""
        return read_end(self.run) is not None


def cell_trainings(row: Row, column: Column, paper: str) -> list[Training]:
    """Return the trainings whose mean is one cell; none for a cell that is not trained.

    Args:
        row: Row of the cell.
        column: Column of the cell.
        paper: The paper's number.
    """
    if not row.recipe or not column.figure or paper == NOT_TRAINED:
        return []
    source = f"{row.recipe}+{column.set}" if column.set else row.recipe
    if column.splits == 1:
        return [Training(source, row.settings)]
    return [Training(source, (*row.settings, f"data.split={split}")) for split in range(1, column.splits + 1)]


def item_trainings(item: Item) -> list[Training]:
    """Return all different trainings of an item, without pre-training."""
    cells = [cell_trainings(*cell) for cell in item.cells]
    return list(dict.fromkeys(training for cell in cells for training in cell))


def plan_item(item: Item, roots: Mapping[str, str], settings: Sequence[str], out: Path) -> list[PaperTraining]:
    """Plan the trainings of an item, each unfinished one after the pre-training that its weights come from.

    Args:
        item: Table or figure.
        roots: Folders of the data sets, by name. A data set that is not among them has an empty `data.root`.
        settings: Settings for all trainings. With `init.weights`, nothing is pre-trained. `data.root` is the folder of
            the only data set of an item, or a folder with one folder for each of several, named as the data sets.
        out: Folder of all runs.
    """
    planned: dict[Training, PaperTraining] = {}
    own = tuple(setting for setting in settings if not setting.startswith("data.root="))
    folders = {**_named_roots(item, settings), **roots}
    for training in item_trainings(item):
        for one in _with_pretraining(training, own, folders, out):
            planned.setdefault(one.training, one)
    return list(planned.values())


def _named_roots(item: Item, settings: Sequence[str]) -> dict[str, str]:
    """The folders of the data sets of an item that `data.root` names, see `plan_item`."""
    given = [setting.partition("=")[2] for setting in settings if setting.startswith("data.root=")]
    if not given:
        return {}
    if len(item.data) == 1:
        return {item.data[0]: given[-1]}
    found = {name: str(Path(given[-1], name)) for name in item.data if Path(given[-1], name).is_dir()}
    if not found and not item.data:
        raise CovpoolError(f"{item.name} needs no data: leave data.root out")
    if not found:
        needed = " ".join(f"--data {name}=FOLDER" for name in item.data)
        raise CovpoolError(
            f"{item.name} needs data.root with folders named {', '.join(item.data)}; {given[-1]!r} has none of them. "
            f"Or name them one by one: {needed}"
        )
    return found


def _with_pretraining(
    training: Training, settings: tuple[str, ...], roots: Mapping[str, str], out: Path
) -> Iterator[PaperTraining]:
    recipe = read_recipe(training.recipe, [*training.settings, *settings])
    changes = [f"data.root={roots[recipe.data.name]}"] if recipe.data.name in roots else []
    weights = Path(recipe.init.weights)
    own_weights = any(setting.startswith("init.weights=") for setting in settings)
    if weights.parts[:1] == ("runs",) and not own_weights and training.result(out) is None:
        before = Training(weights.parent.name)
        yield from _with_pretraining(before, settings, roots, out)
        changes.append(f"init.weights={before.run(out) / weights.name}")
    recipe = read_recipe(training.recipe, [*training.settings, *settings, *changes])
    yield PaperTraining(training, recipe, training.run(out))
