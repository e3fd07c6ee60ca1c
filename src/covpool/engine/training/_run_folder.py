"""The folder of a run: what it holds, and whose turn it is to write there."""

import os
from collections.abc import Sequence
from pathlib import Path

import covpool
from covpool._errors import CovpoolError
from covpool.data.pipeline import data_split, preprocessing
from covpool.engine.training import _log as log
from covpool.engine.training import _state as state
from covpool.io import EvaluationSettings
from covpool.models import Network
from covpool.recipe import RECIPE_FILE, Recipe, to_toml

LAST_CHECKPOINT, BEST_CHECKPOINT = "last.safetensors", "best.safetensors"
WRITTEN = (
    RECIPE_FILE,
    log.LOG_FILE,
    state.STATE_FILE,
    LAST_CHECKPOINT,
    BEST_CHECKPOINT,
)  # by a run, besides tensorboard/ and the report
LEFT_BEHIND = [RECIPE_FILE, log.LOG_FILE]  # by a run that broke before its first line in the log: nothing of worth


def check(run: Path, *, resume: bool) -> None:
    """Refuse a folder that holds a run where a new one is wanted, or none where one is to be resumed, or no place."""
    if resume and not (run / RECIPE_FILE).is_file():
        raise CovpoolError(f"{run} is not the folder of a run: it has no {RECIPE_FILE}")
    if not resume and ((run / state.STATE_FILE).exists() or log.read_log(run / log.LOG_FILE)):
        raise CovpoolError(
            f"{run} holds a run already: go on with `covpool train --resume {run}`, or name another --out"
        )
    found = [name for name in WRITTEN if (run / name).exists()]
    if not resume and found and found != LEFT_BEHIND:
        raise CovpoolError(f"{run} holds {' and '.join(found)}, which a run would write over: name another --out")
    place = next(path for path in (run, *run.absolute().parents) if path.exists())
    if not place.is_dir() or not os.access(place, os.W_OK):
        raise CovpoolError(f"{run} cannot be a folder of a run: nothing can be written in {place}; name another --out")


def claim(run: Path, recipe: Recipe) -> None:
    """Make the folder of a new run."""
    run.mkdir(parents=True, exist_ok=True)
    (run / RECIPE_FILE).write_text(to_toml(recipe))


def save_checkpoint(
    path: Path, network: Network, recipe: Recipe, classes: Sequence[str], about: dict[str, object]
) -> None:
    """A checkpoint with all that `covpool predict` and `covpool eval` need.

    Args:
        path: of the file.
        network: what is saved.
        recipe: of the training.
        classes: names.
        about: how far the training was, and how good.
    """
    covpool.save(
        network,
        path,
        class_names=classes,
        preprocessing=preprocessing(recipe.augment),
        evaluation=EvaluationSettings(crops=recipe.evaluate.crops, flip=recipe.evaluate.flip),
        data=data_split(recipe.data),
        training={"recipe": recipe.model_dump(mode="json"), **about},
    )
