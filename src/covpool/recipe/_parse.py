"""Reading recipes: TOML files and the files they start from, with settings from the command line on top."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from covpool._errors import CovpoolError, WrongTypeError
from covpool.recipe._catalog import find_recipe, read_toml
from covpool.recipe._optimizer import check_optimizer
from covpool.recipe._overrides import read_settings
from covpool.recipe._pool_options import check_pool
from covpool.recipe._schema import Recipe
from covpool.recipe._stages import resolve_stages

BASE = "base"
NAMES = ("name", "backbone")  # a table that sets one of these replaces the table of the base
Tables = dict[str, Any]


def read_recipe(source: str | Path, overrides: Iterable[str] = ()) -> Recipe:
    """Read a recipe, change some of its settings, and check it.

    Args:
        source: TOML file, name of a recipe that comes with covpool (`list_recipes`), or several joined by "+":
            "finetune+cub". A recipe may start from others with `base`.
        overrides: Settings as typed on the command line: `optimizer.lr=0.01`, `schedule.milestones=[20, 30]`,
            `pool.iterations=3`, `stages.0.epochs=2`. Values are TOML; text needs no quotes. `init.weights` replaces
            the weights that a recipe would download. A covpool checkpoint there also replaces the network and the pool
            of such a recipe, unless `model.backbone` or `model.name` is given too.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "mine.toml")
    ...     _ = path.write_text('model.backbone = "resnet18"\\n[pool]\\nname = "isqrt"\\niterations = 3')
    ...     recipe = read_recipe(path, ["optimizer.lr=0.01"])
    >>> recipe.name, recipe.optimizer.lr, recipe.pool.options
    ('mine', 0.01, {'iterations': 3})
    """
    typed = list(overrides)
    keys = {override.partition("=")[0].strip() for override in typed}
    table = read_settings(typed, **read_tables(source))
    _start_from(table, keys)
    _name_pool(table)
    recipe = Recipe(**table)
    _check_reaches_stages(recipe, keys)
    check_recipe(recipe)
    return recipe


def check_recipe(recipe: Recipe, *, here: bool = False) -> None:
    """Refuse a recipe that names no network, or whose pool or optimizer cannot be built.

    Args:
        recipe: Recipe to check.
        here: Whether to refuse also an optimizer that needs a package or a device that this machine does not have.

    >>> check_recipe(Recipe(model={"backbone": "resnet18"}, pool={"name": "isqrt", "iterations": 0}))
    Traceback (most recent call last):
    covpool.CovpoolError: the pool of the recipe cannot be built: `iterations` must be a positive integer; got 0
    """
    if not (recipe.model.name or recipe.model.backbone or recipe.init.weights):
        raise CovpoolError(
            "no network is named: set model.backbone (as in model.backbone=resnet50), model.name (one of `covpool list "
            "--models`), or init.weights to a covpool checkpoint"
        )
    check_pool(recipe)
    for stage in resolve_stages(recipe):
        check_optimizer(stage.recipe.optimizer, here=here)


def read_about(source: str | Path) -> str:
    """Return the text `about` of a recipe, without reading or checking its other settings.

    >>> read_about("pack-dtd10").split()[0]
    'Textures'
    """
    return str(read_tables(source).get("about", ""))


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a recipe: every setting with its type, range, default and description.

    >>> json_schema()["$defs"]["Train"]["properties"]["epochs"]["description"]
    'Number of epochs.'
    """
    return Recipe.model_json_schema()


def setting_meaning(key: str) -> str:
    """Return the description of a setting, named as on the command line; an empty string for an option of a pool.

    >>> setting_meaning("train.epochs"), setting_meaning("pool.iterations")
    ('Number of epochs.', '')
    """
    kind: Any = Recipe
    *tables, name = key.split(".")
    for table in tables:
        kind = kind.model_fields[table].annotation
    found = kind.model_fields.get(name)
    return " ".join((found.description or "").split()) if found else ""


def _check_reaches_stages(recipe: Recipe, typed: set[str]) -> None:
    """Refuse a typed setting that has no effect, because the first stage sets its own and later ones start from it."""
    for key in sorted(typed):
        table, _, name = key.partition(".")
        if table in ("train", "optimizer") and recipe.stages and getattr(recipe.stages[0], name, None) is not None:
            own = [i for i, stage in enumerate(recipe.stages) if getattr(stage, name) is not None]
            raise CovpoolError(
                f"`{key}` has no effect, because the stages of this recipe set their own: set "
                f"{', '.join(f'stages.{i}.{name}' for i in own)} instead"
            )


def _start_from(table: dict[str, Any], typed: set[str]) -> None:
    """Let weights typed on the command line replace those that a recipe would download; see `read_recipe`."""
    init = table.get("init")
    if not isinstance(init, dict) or "init.weights" not in typed or not init["weights"] or not init.get("pretrained"):
        return
    if "init.pretrained" in typed:
        return
    init["pretrained"] = False
    if not typed & {"model.name", "model.backbone"} and _pool_of_checkpoint(init["weights"]):
        for name in ("model", "pool"):
            table[name] = {key: value for key, value in table.get(name, {}).items() if f"{name}.{key}" in typed}


def _pool_of_checkpoint(path: Any) -> str | None:
    """Return the pool of the network in a file; None if the file is not a checkpoint that describes its network."""
    from covpool.io import is_checkpoint, read_checkpoint
    from covpool.models import AttachedArchitecture, pool_of

    if not isinstance(path, str) or not Path(path).is_file() or not is_checkpoint(path):
        return None
    kept = read_checkpoint(path).architecture
    return None if kept is None else kept.pool if isinstance(kept, AttachedArchitecture) else pool_of(kept.name)


def _name_pool(table: dict[str, Any]) -> None:
    """Fill in the pool of a named model or of a checkpoint, and refuse another for a named model."""
    model, pool, init = table.get("model", {}), table.setdefault("pool", {}), table.get("init", {})
    if not all(isinstance(part, dict) for part in (model, pool, init)):
        return
    if not model.get("name"):
        own = None if model.get("backbone") or "name" in pool else _pool_of_checkpoint(init.get("weights", ""))
        table["pool"] = pool if own is None else {**pool, "name": own}
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
