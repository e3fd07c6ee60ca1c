"""The folder of a run: its files, and checks before anything is written to it."""

import os
from pathlib import Path

from covpool._errors import CovpoolError
from covpool._records import read_lines
from covpool.engine.evaluation._tensor_files import SCORES_FILE
from covpool.engine.training._log import LOG_FILE
from covpool.engine.training._state import STATE_FILE
from covpool.io import remove_leftovers, replacing
from covpool.recipe import RECIPE_FILE, Recipe, to_toml

LAST_CHECKPOINT, BEST_CHECKPOINT = "last.safetensors", "best.safetensors"
# The files of a run besides tensorboard/ and the report.
RUN_FILES = (RECIPE_FILE, LOG_FILE, STATE_FILE, LAST_CHECKPOINT, BEST_CHECKPOINT, SCORES_FILE)
FIRST_FILES = [RECIPE_FILE, LOG_FILE]  # the files of a run that failed before its first step: they may be overwritten


def check_run_folder(run: Path, *, resume: bool) -> None:
    """Refuse a folder with a run if `resume` is False, and one without a run if it is True."""
    if resume:
        recipe_file(run)
    if not resume and ((run / STATE_FILE).exists() or read_lines(run / LOG_FILE)):
        raise CovpoolError(
            f"{run} holds a run already: continue it with `covpool train --resume {run}`, or name another --out"
        )
    found = [name for name in RUN_FILES if (run / name).exists()]
    if not resume and found and found != FIRST_FILES:
        raise CovpoolError(f"{run} holds {' and '.join(found)}, which a run would overwrite: name another --out")


def recipe_file(run: Path) -> Path:
    """Return the file with the recipe of a run; refuse a folder without one."""
    path = run / RECIPE_FILE
    if not path.is_file():
        raise CovpoolError(f"{run} is not the folder of a run: it has no {RECIPE_FILE}")
    return path


def check_writable(run: Path) -> None:
    """Refuse a folder that cannot be created or written to."""
    existing = next(path for path in (run, *run.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise CovpoolError(f"{run} cannot be created: {existing} is not a writable folder; name another --out")


def claim_run_folder(run: Path, recipe: Recipe) -> None:
    """Create the folder of a new run and write its recipe."""
    run.mkdir(parents=True, exist_ok=True)
    with replacing(run / RECIPE_FILE) as partial:
        partial.write_text(to_toml(recipe))


def remove_partial_files(run: Path) -> None:
    """Remove files that a killed run had only half written."""
    for name in RUN_FILES:
        remove_leftovers(run / name)
