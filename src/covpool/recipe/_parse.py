"""Recipes as TOML: reading them, with settings from the command line on top, and writing them down again."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from covpool._errors import CovpoolError
from covpool.models import pool_of
from covpool.recipe._check import check_recipe
from covpool.recipe._convert import EXTRA, TABLES_WITH_EXTRA, Text, to_dataclass
from covpool.recipe._inherit import read_tables
from covpool.recipe._schema import Recipe

RECIPE_FILE = "recipe.toml"  # of a run: every setting it was made with


def read_recipe(source: str | Path, overrides: Iterable[str] = ()) -> Recipe:
    """The recipe in a file, with some settings changed.

    Args:
        source: a TOML file, the name of a recipe that comes with covpool (`shelf.list_recipes`), or several joined by
            "+": "finetune+cub". A recipe may start from others, see `inherit.read_tables`.
        overrides: "table.key=value", as typed on the command line: `optimizer.lr=0.01`, `schedule.milestones=[20, 30]`,
            `pool.iterations=3`, `stages.0.epochs=2`. The value is TOML; text needs no quotes.

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
    recipe = to_dataclass(Recipe, table)
    check_recipe(recipe)
    return recipe


def _name_pool(table: dict[str, Any]) -> None:
    """One of the paper's networks brings its pool: put its name into the recipe, and refuse another."""
    model, pool = table.get("model", {}), table.setdefault("pool", {})
    if not (isinstance(model, dict) and isinstance(pool, dict) and model.get("name")):
        return
    name = str(model["name"])
    own = pool_of(name)
    said = str(pool.setdefault("name", own))
    if said != own:
        raise CovpoolError(
            f"`model.name` = {name!r} has the pool {own!r}; got `pool.name` = {said!r}: leave it out, or put it on a "
            "model.backbone"
        )


def to_toml(recipe: Recipe) -> str:
    """Every setting of a recipe, the default ones too, as TOML that `read_recipe` reads back to the same.

    >>> to_toml(Recipe(name="mine")).splitlines()[:3]
    ['name = "mine"', 'about = ""', 'seed = 0']
    """
    plain, tables = [], []
    for field in dataclasses.fields(recipe):
        value = getattr(recipe, field.name)
        if dataclasses.is_dataclass(value):
            tables.append(f"[{field.name}]\n{_settings(_flat(field.name, value))}")
        elif field.name == "stages":
            tables += [f"[[stages]]\n{_settings(vars(stage))}" for stage in value]
        else:
            plain.append(f"{field.name} = {_toml(value)}\n")
    return "\n".join(["".join(plain), *tables])


def _flat(name: str, table: Any) -> dict[str, Any]:
    values = dict(vars(table))
    extra = values.pop(EXTRA) if name in TABLES_WITH_EXTRA else {}
    return {**values, **extra}


def _settings(values: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {_toml(value)}\n" for key, value in values.items() if value is not None)


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(k)} = {_toml(v)}' for k, v in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)


def set_value(table: dict[str, Any], override: str) -> None:
    """Put "table.key=value", as typed on the command line, into a table of tables."""
    key, equals, value = override.partition("=")
    *above, last = key.strip().split(".")
    if not equals or not last:
        raise CovpoolError(f"a setting is written table.key=value, as in optimizer.lr=0.01; got {override!r}")
    at: Any = table
    for step in above:
        at = at.setdefault(step, {}) if isinstance(at, dict) else _element(at, step, key)
    if not isinstance(at, dict):
        raise CovpoolError(f"`{key}` cannot be set: {'.'.join(above)} is {at!r}, not a table")
    at[last] = Text(value.strip())


def _element(values: Any, position: str, key: str) -> Any:
    if not isinstance(values, list) or not position.isdecimal() or int(position) >= len(values):
        raise CovpoolError(f"`{key}` cannot be set: there is no element {position!r} in {values!r}")
    return values[int(position)]
