"""Recipes that start from others: what one says is laid over what those say."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from covpool._errors import CovpoolError, WrongTypeError
from covpool.recipe._catalog import find_recipe, read_toml

BASE = "base"
NAMES = ("name", "backbone")  # a table with one of these speaks of another thing than the table it is laid over
Tables = dict[str, Any]


def read_tables(source: str | Path) -> Tables:
    """All tables of a recipe, those of the recipes it starts from included.

    `base = "other"` (or a list of several) at the top of a file names the recipes it starts from, by name or by a path
    from the folder of the file. "one+other" is one recipe with another laid over it. A setting replaces the same
    setting of the base, and leaves the rest of its table; but a table that names something (a pool, a backbone, a data
    set, a schedule) replaces the whole table, whose other settings belong to what was named before.

    Args:
        source: a TOML file, the name of a recipe, or several of them joined by "+".
    """
    parts = [source] if Path(source).is_file() else str(source).split("+")
    paths = [find_recipe(part) for part in parts]
    tables = _laid_over(_resolved(path, ()) for path in paths)
    tables.setdefault("name", "+".join(path.stem for path in paths))
    return tables


def _resolved(path: Path, above: tuple[Path, ...]) -> Tables:
    """A file with its bases under it; `above` are the files that led here."""
    path = path.resolve()
    if path in above:
        chain = " -> ".join(p.stem for p in (*above, path))
        raise CovpoolError(f"a recipe cannot start from itself: {chain}")
    own = read_toml(path)
    bases = own.pop(BASE, [])
    bases = [bases] if isinstance(bases, str) else bases
    if not isinstance(bases, list) or not all(isinstance(base, str) for base in bases):
        raise WrongTypeError(f"`{BASE}` in {path} must be the name of a recipe, or a list of names; got {bases!r}")
    found = [_resolved(find_recipe(base, path.parent), (*above, path)) for base in bases]
    for tables in found:
        tables.pop("name", None)
    return _laid_over([*found, own])


def _laid_over(layers: Iterable[Tables]) -> Tables:
    """Tables laid over each other, the last on top.

    >>> low = {"seed": 1, "pool": {"name": "isqrt", "iterations": 3}, "train": {"epochs": 5, "batch_size": 8}}
    >>> _laid_over([low, {"pool": {"name": "bcnn"}, "train": {"epochs": 7}}])
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
