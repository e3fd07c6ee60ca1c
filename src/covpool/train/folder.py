"""The folder of a run: what it holds, and whose turn it is to write there."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

import covpool
from covpool.data.transforms import preprocessing
from covpool.models.network import Network
from covpool.train import log, state
from covpool.train.parse import RECIPE, to_toml
from covpool.train.recipe import Recipe

LAST, BEST = "last.safetensors", "best.safetensors"
WRITTEN = (RECIPE, log.FILE, state.FILE, LAST, BEST)  # by a run, besides tensorboard/ and the report
LEFT_BEHIND = [RECIPE, log.FILE]  # by a run that broke before its first line in the log: nothing of worth


def check(run: Path, *, resume: bool) -> None:
    """Refuse a folder that holds a run where a new one is wanted, or none where one is to be resumed, or no place."""
    if resume and not (run / RECIPE).is_file():
        raise ValueError(f"{run} is not the folder of a run: it has no {RECIPE}")
    if not resume and ((run / state.FILE).exists() or log.read_log(run / log.FILE)):
        raise ValueError(f"{run} holds a run already: go on with `covpool train --resume {run}`, or name another --out")
    found = [name for name in WRITTEN if (run / name).exists()]
    if not resume and found and found != LEFT_BEHIND:
        raise ValueError(f"{run} holds {' and '.join(found)}, which a run would write over: name another --out")
    place = next(path for path in (run, *run.absolute().parents) if path.exists())
    if not place.is_dir() or not os.access(place, os.W_OK):
        raise ValueError(f"{run} cannot be a folder of a run: nothing can be written in {place}; name another --out")


def claim(run: Path, recipe: Recipe) -> None:
    """Make the folder of a new run."""
    run.mkdir(parents=True, exist_ok=True)
    (run / RECIPE).write_text(to_toml(recipe))


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
        recipe_extra={"training": dataclasses.asdict(recipe), **about},
    )
