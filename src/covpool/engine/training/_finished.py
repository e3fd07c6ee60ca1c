"""What a run, or a fit, is known by: its recipe, and the checkpoint that is its result."""

from pathlib import Path
from typing import Any

from covpool._errors import CovpoolError
from covpool.engine.training._run_folder import BEST_CHECKPOINT, LAST_CHECKPOINT, recipe_file
from covpool.io import read_checkpoint
from covpool.recipe import RECIPE_FILE, Recipe, read_recipe


def read_run_recipe(run: Path) -> Recipe:
    """The recipe of a training, or the one that describes the data and the network of a fit."""
    best = run / BEST_CHECKPOINT
    training = read_checkpoint(best).training if best.is_file() and not (run / RECIPE_FILE).is_file() else None
    if training is None or training.recipe is None:
        return read_recipe(recipe_file(run))
    settings: dict[str, Any] = training.recipe
    return Recipe(**settings)


def find_checkpoint(run: Path) -> Path:
    """The checkpoint that is the result of a run: the best one if it was not chosen on the test set, else the last."""
    best, last = run / BEST_CHECKPOINT, run / LAST_CHECKPOINT
    if last.is_file() and not (best.is_file() and _chosen_on(best) == "validation"):
        return last
    if best.is_file():  # of a fit, which has no other
        return best
    raise CovpoolError(f"there is no checkpoint in {run} yet")


def _chosen_on(path: Path) -> object:
    """The images that a checkpoint was chosen on, "test" or "validation"; None if it does not say."""
    training = read_checkpoint(path).training
    return training.notes.get("chosen_on") if training else None
