"""The options of a pool as a recipe writes them: what they mean in Python, and whether a pool can be made of them."""

import types
from collections.abc import Sequence
from typing import Any, Literal, Union, get_args, get_origin

import torch

from covpool._errors import CovpoolError, WrongTypeError
from covpool.models import FLATTEN, pool_of, representation_of
from covpool.pools import create_pool, option_types
from covpool.recipe._schema import Recipe

NONE = "none"  # TOML has no null
CHANNELS = 4096  # of a pool that is made to see whether it can be: wide
OF_CHANNELS = ("project_to", "groups")  # whether one divides the other depends on the backbone's own


def pool_options(recipe: Recipe) -> dict[str, Any]:
    """Keyword arguments for the pool: "none" has become None where the pool takes None.

    >>> from covpool.recipe._schema import Pool
    >>> pool_options(Recipe(pool=Pool(name="deepo2p", options={"reduce_to": "none", "scale": "none"})))
    {'reduce_to': None, 'scale': 'none'}
    """
    name = _pool_name(recipe)
    kinds = {} if name == FLATTEN else option_types(name)
    return {
        key: None if value == NONE and type(None) in get_args(kinds.get(key)) else value
        for key, value in recipe.pool.options.items()
    }


def check_pool(recipe: Recipe) -> None:
    """Refuse options of the wrong name, type or value: a pool is made of them on the meta device.

    What depends on the channels of the backbone, which is not built yet, is left to it, as are the options of networks
    that have no pool of the table.
    """
    name = _pool_name(recipe)
    if name == FLATTEN:
        return
    options, kinds = pool_options(recipe), option_types(name)
    if "num_classes" in options:
        raise CovpoolError("`pool.num_classes` must be left out: it is the number of classes of the data")
    if options.get("reduce_to") == "auto":  # `attach` chooses
        del options["reduce_to"]
    for key, value in options.items():
        kind = kinds.get(key, Any)
        if not _is_of(kind, value):
            raise WrongTypeError(f"`pool.{key}` must be {_in_words(kind)}; got {value!r} ({type(value).__name__})")
    if recipe.model.name:
        options = {**representation_of(recipe.model.name), **options}
    if "project_to" in options:
        options = {key: value for key, value in options.items() if key not in OF_CHANNELS}
    inputs = len(recipe.model.levels) or 1
    try:
        with torch.device("meta"):
            create_pool(name, CHANNELS if inputs == 1 else (CHANNELS,) * inputs, **options)
    except (TypeError, ValueError) as error:
        raise type(error)(f"the table `pool` of the recipe makes no pool: {error}") from error
    except RuntimeError:  # a pool that cannot be made without its numbers is made later
        return


def _pool_name(recipe: Recipe) -> str:
    return pool_of(recipe.model.name) if recipe.model.name else recipe.pool.name


def _is_of(kind: Any, value: object) -> bool:
    """Whether a value is of the type that an annotation tells; words are compared by the pool itself."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_is_of(one, value) for one in inner)
    if origin is Literal:
        return any(type(value) is type(choice) for choice in inner)
    if (origin or kind) in (Sequence, tuple, list):
        return isinstance(value, (list, tuple)) and (not inner or all(_is_of(inner[0], one) for one in value))
    if isinstance(value, bool):
        return kind is bool
    if kind in (bool, int, float, str, type(None)):
        return isinstance(value, (int, float) if kind is float else kind)
    return True  # of a kind that no pool of ours has: its own affair


def _in_words(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(_in_words(one) for one in inner)
    if origin is Literal:
        return " or ".join(repr(choice) for choice in inner)
    if (origin or kind) in (Sequence, tuple, list):
        return f"a list ({_in_words(inner[0])} each)" if inner else "a list"
    return {bool: "true or false", int: "a whole number", float: "a number", type(None): repr(NONE)}.get(kind, "text")
