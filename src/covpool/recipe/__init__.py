"""Recipes: every setting of a training run, read from TOML and the command line, and checked."""

from covpool.recipe._catalog import list_recipes, list_sets
from covpool.recipe._check import check_recipe
from covpool.recipe._optimizer import build_optimizer
from covpool.recipe._overrides import listed, set_value
from covpool.recipe._parse import json_schema, read_about, read_recipe
from covpool.recipe._pool_options import pool_options
from covpool.recipe._schema import Devices, Model, Optimizer, Pool, Precision, Recipe, Schedule, flat_settings
from covpool.recipe._stages import ResolvedStage, resolve_stages, total_epochs, total_steps
from covpool.recipe._toml import RECIPE_FILE, to_toml

__all__ = [
    "RECIPE_FILE",
    "Devices",
    "Model",
    "Optimizer",
    "Pool",
    "Precision",
    "Recipe",
    "ResolvedStage",
    "Schedule",
    "build_optimizer",
    "check_recipe",
    "flat_settings",
    "json_schema",
    "list_recipes",
    "list_sets",
    "listed",
    "pool_options",
    "read_about",
    "read_recipe",
    "resolve_stages",
    "set_value",
    "to_toml",
    "total_epochs",
    "total_steps",
]
