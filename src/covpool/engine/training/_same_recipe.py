"""The recipe of a resumed run: that of its saved state, with settings that do not affect the result changed."""

from fnmatch import fnmatchcase
from typing import Any

from covpool._errors import CovpoolError
from covpool.recipe import RECIPE_FILE, Recipe, flat_settings

# Settings that may change when a run is resumed, because they do not affect the result.
CHANGEABLE = ("data.root", "data.workers", "devices.*", "train.log_every", "train.save_every")
NAMES = ("name", "about", "source")
FILLED = ("augment.*", "data.split_seed", "data.test_fraction")  # a recipe may leave them to the network or its weights


def resumed_recipe(kept: Recipe, given: Recipe) -> Recipe:
    """Return the recipe to resume with, and refuse one that would change the result.

    Args:
        kept: The recipe in the saved state.
        given: The recipe to resume with. It may change the settings in `CHANGEABLE`.
    """
    changed = changed_settings(kept, given)
    if changed:
        settings = "; ".join(f"{name} = {now!r}, and was {before!r}" for name, (before, now) in changed.items())
        raise CovpoolError(
            f"the recipe is not the one that the run was started with: {settings}: undo the change in {RECIPE_FILE}, "
            "or start a new run"
        )
    data = {"root": given.data.root, "workers": given.data.workers}
    train = {"log_every": given.train.log_every, "save_every": given.train.save_every}
    return kept.changed(name=given.name, about=given.about, data=data, train=train, devices=given.devices)


def changed_settings(kept: Recipe, given: Recipe) -> dict[str, tuple[Any, Any]]:
    """The settings that differ and affect the result, each with both values; None stands for a missing option.

    >>> first = Recipe()
    >>> changed_settings(first, first.changed(optimizer={"lr": 0.5}, data={"workers": 0}))
    {'optimizer.lr': (0.1, 0.5)}
    """
    before, now = _plain(kept), _plain(given)
    return {
        name: (before.get(name), now.get(name))
        for name in {**before, **now}
        if before.get(name) != now.get(name)
        and not _is_among(name, (*CHANGEABLE, *NAMES))
        and not (now.get(name) is None and _is_among(name, FILLED))
    }


def _plain(recipe: Recipe) -> dict[str, Any]:
    """The settings by name, with the types that they have when they are read from a file."""
    return dict(flat_settings(Recipe(**recipe.model_dump(mode="json"))))


def _is_among(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
