"""Recipes: every setting of a training run, read from TOML and the command line, and checked."""

from covpool.recipe._catalog import list_recipes as list_recipes
from covpool.recipe._catalog import list_sets as list_sets
from covpool.recipe._optimizer import build_optimizer as build_optimizer
from covpool.recipe._overrides import listed as listed
from covpool.recipe._overrides import read_settings as read_settings
from covpool.recipe._parse import check_recipe as check_recipe
from covpool.recipe._parse import json_schema as json_schema
from covpool.recipe._parse import read_about as read_about
from covpool.recipe._parse import read_recipe as read_recipe
from covpool.recipe._parse import setting_meaning as setting_meaning
from covpool.recipe._pool_options import pool_options as pool_options
from covpool.recipe._schema import Devices as Devices
from covpool.recipe._schema import Model as Model
from covpool.recipe._schema import Optimizer as Optimizer
from covpool.recipe._schema import Pool as Pool
from covpool.recipe._schema import Precision as Precision
from covpool.recipe._schema import Recipe as Recipe
from covpool.recipe._schema import Schedule as Schedule
from covpool.recipe._schema import Train as Train
from covpool.recipe._schema import flat_settings as flat_settings
from covpool.recipe._stages import ResolvedStage as ResolvedStage
from covpool.recipe._stages import resolve_stages as resolve_stages
from covpool.recipe._stages import total_epochs as total_epochs
from covpool.recipe._stages import total_steps as total_steps
from covpool.recipe._toml import RECIPE_FILE as RECIPE_FILE
from covpool.recipe._toml import to_toml as to_toml
