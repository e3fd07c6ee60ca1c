"""Trainings one after another: the folder of each, what it ended with, and why it failed."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from covpool._records import read_lines
from covpool.engine.training import LOG_FILE, Event, train
from covpool.recipe import RECIPE_FILE, Recipe


def folder_name(settings: Iterable[str]) -> str:
    """Return a folder name that is different for all settings "key=value". Special characters are written as in a URL.

    >>> folder_name(["init.weights=nets/a.pth", "seed=0"])
    'init.weights=nets%2Fa.pth,seed=0'
    """
    pairs = (setting.partition("=") for setting in settings)
    return ",".join(f"{key}{equals}{quote(value, safe=',+[]')}" for key, equals, value in pairs)


def read_end(run: Path) -> dict[str, Any] | None:
    """Return the last event of a finished training, with its result; None if it is not finished."""
    return next((event for event in read_lines(run / LOG_FILE) if event["event"] == "end"), None)


def train_or_resume(recipe: Recipe, run: Path, on_event: Callable[[Event], None]) -> str:
    """Train, or resume what was interrupted. Returns why it failed, or "".

    Raises:
        Stopped: Ctrl-C was pressed, and the state was saved.
    """
    try:
        train(recipe, run, resume=(run / RECIPE_FILE).is_file(), on_event=on_event)
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""
