"""Options of pools: how a method declares them, and their checks by annotation."""

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from covpool._errors import CovpoolError, check_choice, check_positive_int

PositiveInt = Annotated[int, "at least one"]


def check_options(options: Mapping[str, object], kinds: Mapping[str, Any]) -> None:
    """Check options: a Literal takes one of its values, a `PositiveInt` an integer of at least one, a float is finite.

    The first two may be optional (`| None`). A method checks its options of other types itself.

    >>> check_options({"size": 0}, {"size": PositiveInt})
    Traceback (most recent call last):
    covpool.CovpoolError: `size` must be a positive integer; got 0
    """
    for name, value in options.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise CovpoolError(f"`{name}` must be a finite number; got {value}")
        kind = kinds.get(name)
        members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        types = [member for member in members if member is not NoneType]
        none = [None] if NoneType in members else []
        if all(get_origin(one) is Literal for one in types):
            check_choice(name, value, [*none, *(choice for one in types for choice in get_args(one))])
        elif types == [PositiveInt] and value not in none:
            check_positive_int(name, value)


def declared_options(cls: type, base: type) -> dict[str, Any]:
    """Return the annotated class attributes of a class below `base`, and their defaults."""
    found: dict[str, Any] = {}
    for one in reversed(_below(cls, base)):
        values = vars(one)
        found |= {key: values[key] for key in inspect.get_annotations(one) if key in values and not hasattr(base, key)}
    return found


def own_options(cls: type, base: type) -> dict[str, Any]:
    """Return the options that a class adds to those of `base`, attributes or keywords of `__init__`, with defaults."""
    keywords = {key: p.default for make in _initializers(cls, base) for key, p in _keywords(make).items()}
    return {**keywords, **declared_options(cls, base)}


def option_types(cls: type, base: type, *, extras: bool = False) -> dict[str, Any]:
    """Return the annotations of the options of a class and of `base`; Any for an option without one."""
    common, hints = vars(base)["__init__"], dict[str, Any]()
    for source in (common, cls, *_initializers(cls, base)):
        try:
            hints |= get_type_hints(source, include_extras=extras)
        except NameError:  # an annotation names something that is imported only for type checking
            continue
    return {key: hints.get(key, Any) for key in (*own_options(cls, base), *_keywords(common))}


def signature(cls: type, base: type) -> inspect.Signature:
    """Return the signature of a class with all its options, for help texts and editors.

    >>> from covpool.pools import Pool
    >>> "rank: int = 3" in str(signature(type("Mine", (Pool,), {"__annotations__": {"rank": int}, "rank": 3}), Pool))
    True
    """
    _, features, *common, _ = inspect.signature(vars(base)["__init__"]).parameters.values()
    kinds = option_types(cls, base)
    keyword = functools.partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
    own = [keyword(key, default=value, annotation=kinds[key]) for key, value in own_options(cls, base).items()]
    return inspect.Signature([features, *own, *common])


def _below(cls: type, base: type) -> list[type]:
    return [one for one in cls.__mro__ if issubclass(one, base) and one is not base]


def _initializers(cls: type, base: type) -> list[Callable[..., None]]:
    return [vars(one)["__init__"] for one in _below(cls, base) if "__init__" in vars(one)]


def _keywords(function: Callable[..., None]) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters
    return {key: p for key, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}
