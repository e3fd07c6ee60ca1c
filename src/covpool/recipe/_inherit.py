"""Combining the settings of a recipe with those of its bases."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from covpool._errors import CovpoolError, WrongTypeError
from covpool.recipe._catalog import find_recipe, read_toml

BASE = "base"
NAMES = ("name", "backbone")  # a table that sets one of these replaces the table of the base
Tables = dict[str, Any]


def read_tables(source: str | Path) -> Tables:
    """Read all tables of a recipe, including those of the recipes it starts from.

    `base = "other"` (or a list) at the top of a file names the recipes it starts from, by name or by a path relative to
    the file. In "one+other" the settings of `other` take precedence. A setting replaces the same setting of the base
    and leaves the rest of the table as it is. A table that sets the name of a pool, backbone, data set or schedule
    replaces the whole table of the base, whose other settings belong to the name in the base.

    Args:
        source: TOML file, name of a recipe, or several of them joined by "+".
    """
    parts = [source] if Path(source).is_file() else str(source).split("+")
    paths = [find_recipe(part) for part in parts]
    tables = _combine(_resolve(path, ()) for path in paths)
    tables.setdefault("name", "+".join(path.stem for path in paths))
    return tables


def _resolve(path: Path, above: tuple[Path, ...]) -> Tables:
    """Read a file and combine it with its bases. `above` are the files that have it as their base."""
    path = path.resolve()
    if path in above:
        chain = " -> ".join(p.stem for p in (*above, path))
        raise CovpoolError(f"a recipe cannot start from itself: {chain}")
    own = read_toml(path)
    bases = own.pop(BASE, [])
    bases = [bases] if isinstance(bases, str) else bases
    if not isinstance(bases, list) or not all(isinstance(base, str) for base in bases):
        raise WrongTypeError(f"`{BASE}` in {path} must be the name of a recipe, or a list of names; got {bases!r}")
    found = [_resolve(find_recipe(base, path.parent), (*above, path)) for base in bases]
    for tables in found:
        tables.pop("name", None)
    return _combine([*found, own])


def _combine(layers: Iterable[Tables]) -> Tables:
    """Combine tables. Later ones take precedence.

    >>> low = {"seed": 1, "pool": {"name": "isqrt", "iterations": 3}, "train": {"epochs": 5, "batch_size": 8}}
    >>> _combine([low, {"pool": {"name": "bcnn"}, "train": {"epochs": 7}}])
    {'seed': 1, 'pool': {'name': 'bcnn'}, 'train': {'epochs': 7, 'batch_size': 8}}
    """
    made: Tables = {}
    for layer in layers:
        for key, value in layer.items():
            under = made.get(key)
            if isinstance(value, Mapping) and isinstance(under, dict) and not any(name in value for name in NAMES):
                made[key] = {**under, **value}
            else:
                made[key] = dict(value) if isinstance(value, Mapping) else value
    return made
