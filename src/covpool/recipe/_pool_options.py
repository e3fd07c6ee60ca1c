"""The options of a pool in a recipe: their types, from the pool's signature, and whether the pool can be built."""

from typing import Any, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from covpool._errors import CovpoolError, WrongTypeError, did_you_mean
from covpool._settings import in_words
from covpool.recipe._schema import Recipe

NONE = "none"  # TOML has no null
CHANNELS = 4096  # a width at which a trial pool accepts all sensible options
OF_CHANNELS = ("project_to", "groups")  # options that must divide the number of channels of the backbone
STRICT = ConfigDict(strict=True, arbitrary_types_allowed=True)


def pool_options(recipe: Recipe) -> dict[str, Any]:
    """Return the keyword arguments of the pool, with None for "none" where the pool accepts None.

    >>> pool_options(Recipe(pool={"name": "deepo2p", "reduce_to": "none", "scale": "none"}))
    {'reduce_to': None, 'scale': 'none'}
    """
    kinds = _option_types(_pool_name(recipe))
    return {
        key: None if value == NONE and type(None) in get_args(kinds.get(key)) else value
        for key, value in recipe.pool.options.items()
    }


def check_pool(recipe: Recipe) -> None:
    """Refuse options with a wrong name, type or value. The pool is built on the meta device to find out.

    The backbone does not exist yet, so options that depend on its channels are not checked.
    """
    import torch

    from covpool.models import FLATTEN, representation_of
    from covpool.pools import create_pool

    name = _pool_name(recipe)
    if name == FLATTEN:
        return
    options = pool_options(recipe)
    if "num_classes" in options:
        raise CovpoolError("`pool.num_classes` must be left out: it is the number of classes of the data")
    if options.get("reduce_to") == "auto":  # `attach` chooses
        del options["reduce_to"]
    kinds = _option_types(name)
    for key, value in options.items():
        _check_type(key, value, kinds.get(key, Any))
    if recipe.model.name:
        options = {**representation_of(recipe.model.name), **options}
    if "project_to" in options:
        options = {key: value for key, value in options.items() if key not in OF_CHANNELS}
    inputs = len(recipe.model.levels) or 1
    try:
        with torch.device("meta"):
            create_pool(name, CHANNELS if inputs == 1 else (CHANNELS,) * inputs, **options)
    except (TypeError, ValueError) as error:
        kind = WrongTypeError if isinstance(error, TypeError) else CovpoolError
        raise kind(f"the pool of the recipe cannot be built: {error}") from error
    except RuntimeError:  # some pools compute with their parameters, which meta tensors do not allow
        return


def _option_types(pool: str) -> dict[str, Any]:
    from covpool.models import FLATTEN
    from covpool.pools import option_types

    return {} if pool == FLATTEN else option_types(pool)


def _pool_name(recipe: Recipe) -> str:
    if not recipe.model.name:
        return recipe.pool.name
    from covpool.models import pool_of

    return pool_of(recipe.model.name)


def _check_type(key: str, value: object, kind: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(kind, config=STRICT)
    for form in (value, tuple(value)) if isinstance(value, list) else (value,):
        try:
            adapter.validate_python(form)
        except ValidationError:
            continue
        return
    try:
        wanted = adapter.json_schema()
        words = in_words(wanted, none=repr(NONE))
    except PydanticUserError:  # a type of the pool's author that JSON cannot express
        wanted, words = {}, str(kind)
    if isinstance(value, str) and "enum" in str(wanted):
        choices = [choice for one in wanted.get("anyOf", [wanted]) for choice in one.get("enum", [])]
        raise CovpoolError(f"`pool.{key}` must be {words}; got {value!r}{did_you_mean(value, choices)}")
    raise WrongTypeError(f"`pool.{key}` must be {words}; got {value!r} ({type(value).__name__})")
