"""The recipes that come with covpool, and how a recipe is found and read."""

import tomllib
from pathlib import Path
from typing import Any

import covpool
from covpool._errors import CovpoolError, did_you_mean

SETS = "sets"  # subfolder with the settings of data sets, which are combined with a recipe


def list_recipes() -> list[str]:
    """Return the names of the recipes that come with covpool."""
    return _names(recipe_folder())


def list_sets() -> list[str]:
    """Return the names of the data sets that can be combined with a recipe, as in "finetune+cub"."""
    return _names(recipe_folder() / SETS)


def find_recipe(source: str | Path, beside: Path | None = None) -> Path:
    """Find the file of a recipe by its path or its name.

    Args:
        source: TOML file, or one of `list_recipes()` or `list_sets()`.
        beside: Folder that a relative path may start from, besides the current one.
    """
    path = Path(source)
    ours = recipe_folder()
    candidates = [path, ours / f"{source}.toml", ours / SETS / f"{source}.toml"]
    for candidate in candidates if beside is None else [beside / path, *candidates]:
        if candidate.is_file():
            return candidate
    if path.suffix or len(path.parts) > 1:
        raise FileNotFoundError(f"there is no recipe {str(source)!r}: expected a TOML file")
    names = [*list_recipes(), *list_sets()]
    raise CovpoolError(
        f"there is no recipe named {str(source)!r}{did_you_mean(source, names)}; `covpool list --recipes` "
        "lists all; a file of your own is given by its path"
    )


def read_toml(path: Path) -> dict[str, Any]:
    """Read the tables of a TOML file."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        repr(tables)  # nested as deeply as messages can show
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CovpoolError(f"{path} is not TOML: {error}") from error
    except RecursionError as error:
        raise CovpoolError(f"{path} is not a recipe: its tables or lists are nested too deeply") from error
    return tables


def recipe_folder() -> Path:
    """Return the folder of the recipes: inside an installed package, or beside src/ in a checkout."""
    package = Path(covpool.__file__).parent
    inside = package / "recipes"
    return inside if inside.is_dir() else package.parents[1] / "recipes"


def _names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.toml"))
