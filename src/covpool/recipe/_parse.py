"""Reading recipes: TOML files, with settings from the command line on top."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from covpool._errors import CovpoolError
from covpool.recipe._check import check_recipe
from covpool.recipe._inherit import read_tables
from covpool.recipe._overrides import set_value
from covpool.recipe._schema import Recipe


def read_recipe(source: str | Path, overrides: Iterable[str] = ()) -> Recipe:
    """Read a recipe, change some of its settings, and check it.

    Args:
        source: TOML file, name of a recipe that comes with covpool (`list_recipes`), or several joined by "+":
            "finetune+cub". A recipe may start from others with `base`.
        overrides: Settings as typed on the command line: `optimizer.lr=0.01`, `schedule.milestones=[20, 30]`,
            `pool.iterations=3`, `stages.0.epochs=2`. Values are TOML; text needs no quotes.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "mine.toml")
    ...     _ = path.write_text('model.backbone = "resnet18"\\n[pool]\\nname = "isqrt"\\niterations = 3')
    ...     recipe = read_recipe(path, ["optimizer.lr=0.01"])
    >>> recipe.name, recipe.optimizer.lr, recipe.pool.options
    ('mine', 0.01, {'iterations': 3})
    """
    table = read_tables(source)
    for override in overrides:
        set_value(table, override)
    _name_pool(table)
    recipe = Recipe(**table)
    check_recipe(recipe)
    return recipe


def read_about(source: str | Path) -> str:
    """Return the text `about` of a recipe, without reading or checking its other settings.

    >>> read_about("demo").split()[0]
    'The'
    """
    return str(read_tables(source).get("about", ""))


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a recipe: every setting with its type, range, default and description.

    >>> json_schema()["$defs"]["Train"]["properties"]["epochs"]["description"]
    'Number of epochs.'
    """
    return Recipe.model_json_schema()


def _name_pool(table: dict[str, Any]) -> None:
    """Fill in the pool of a named model, and refuse another."""
    model, pool = table.get("model", {}), table.setdefault("pool", {})
    if not (isinstance(model, dict) and isinstance(pool, dict) and model.get("name")):
        return
    from covpool.models import pool_of

    name = str(model["name"])
    own = pool_of(name)
    given = str(pool.setdefault("name", own))
    if given != own:
        raise CovpoolError(
            f"`model.name` = {name!r} has the pool {own!r}; got `pool.name` = {given!r}: leave it out, or put it on a "
            "model.backbone"
        )
