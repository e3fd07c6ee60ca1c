"""Recipes: every setting of a training run, read from TOML and the command line, and checked."""

from covpool.recipe._catalog import list_recipes, list_sets
from covpool.recipe._check import check_recipe
from covpool.recipe._convert import EXTRA, TABLES_WITH_EXTRA, Text, listed, to_dataclass, typed
from covpool.recipe._optimizer import make_optimizer, set_lr
from covpool.recipe._parse import RECIPE_FILE, read_recipe, set_value, to_toml
from covpool.recipe._pool_options import pool_options
from covpool.recipe._schema import Devices, Model, Optimizer, Precision, Recipe, Schedule
from covpool.recipe._stages import Part, parts, total_epochs, total_steps

__all__ = [
    "EXTRA",
    "RECIPE_FILE",
    "TABLES_WITH_EXTRA",
    "Devices",
    "Model",
    "Optimizer",
    "Part",
    "Precision",
    "Recipe",
    "Schedule",
    "Text",
    "check_recipe",
    "list_recipes",
    "list_sets",
    "listed",
    "make_optimizer",
    "parts",
    "pool_options",
    "read_recipe",
    "set_lr",
    "set_value",
    "to_dataclass",
    "to_toml",
    "total_epochs",
    "total_steps",
    "typed",
]
