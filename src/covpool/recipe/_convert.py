"""Plain values of a TOML file or of the command line -> the typed classes of a recipe."""

import dataclasses
import re
import tomllib
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from covpool._check import did_you_mean
from covpool._errors import CovpoolError, WrongTypeError

T = TypeVar("T")
EXTRA = "options"  # of the table `pool`: the field that takes the keys the class does not name
TABLES_WITH_EXTRA = ("pool",)


class Text(str):
    """A value as it was typed on the command line: what it means depends on the type that is wanted."""


def to_dataclass(cls: type[T], table: object, where: str = "") -> T:
    """The class filled from a table, every key and every value checked.

    Args:
        cls: a dataclass of a recipe.
        table: what TOML makes of a table.
        where: the name of the table, for the errors.

    >>> from covpool.recipe._schema import Schedule
    >>> to_dataclass(Schedule, {"name": "step", "milestones": [30, 45]}, "schedule").milestones
    (30, 45)
    """
    if not isinstance(table, Mapping):
        raise WrongTypeError(f"`{where}` must be a table of settings; got {table!r}")
    wanted = get_type_hints(cls)
    if where in TABLES_WITH_EXTRA:
        own = {key: table[key] for key in table if key in wanted}
        table = {**own, EXTRA: {**own.get(EXTRA, {}), **{k: v for k, v in table.items() if k not in wanted}}}
    for key in table:
        if key not in wanted:
            raise CovpoolError(f"there is no setting `{_join(where, key)}`{did_you_mean(key, wanted)}{_known(wanted)}")
    values = {key: convert(value, wanted[key], _join(where, key)) for key, value in table.items()}
    missing = [f.name for f in dataclasses.fields(cls) if _is_required(f) and f.name not in values]  # type: ignore[arg-type]
    if missing:
        raise CovpoolError(f"`{where}` must say `{missing[0]}`")
    return cls(**values)


def convert(value: object, kind: Any, where: str) -> Any:
    """One value in the type that the recipe wants for it.

    >>> convert(Text("32"), str, "train.precision"), convert(Text("[1, 2]"), tuple[int, ...], "schedule.milestones")
    ('32', (1, 2))
    """
    origin = get_origin(kind)
    if dataclasses.is_dataclass(kind):
        return to_dataclass(kind, value, where)  # type: ignore[arg-type]
    if origin in (Union, types.UnionType):
        return convert(value, next(k for k in get_args(kind) if k is not type(None)), where)
    if origin is Literal:
        return _choice(value, get_args(kind), where)
    if kind is str:
        return str(_expect(value, str, "text", where))
    value = typed(value)
    if origin is tuple:
        return _tuple(value, get_args(kind), where)
    if origin is dict:
        return {key: typed(v) for key, v in _expect(value, Mapping, "a table", where).items()}
    if kind is bool:
        return _expect(value, bool, "true or false", where)
    if kind is float:
        return float(_expect(value, (int, float), "a number", where))
    assert kind is int, f"no rule for {kind}"
    return _expect(value, int, "a whole number", where)


def typed(value: object) -> Any:
    """What was typed on the command line, read as TOML; what is no TOML is text."""
    if not isinstance(value, Text):
        return value
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return str(value)


def listed(value: str) -> list[Any] | None:
    """The elements of a list as it was typed, words without quotes too; None for what is no list.

    >>> listed("[0.3, 0.5]"), listed("[isqrt, spdnet:dims=[8,4]]"), listed("isqrt")
    ([0.3, 0.5], ['isqrt', 'spdnet:dims=[8,4]'], None)
    """
    if not (value.startswith("[") and value.endswith("]")):
        return None
    read = typed(Text(value))
    if isinstance(read, list):
        return read
    return [word.strip() for word in re.split(r",(?![^\[\]]*\])", value[1:-1]) if word.strip()]


def _choice(value: object, choices: tuple[object, ...], where: str) -> object:
    value = str(value) if isinstance(value, Text) and isinstance(choices[0], str) else typed(value)
    if value not in choices or isinstance(value, bool):
        raise CovpoolError(f"`{where}` must be one of {list(choices)}; got {value!r}{did_you_mean(value, choices)}")
    return value


def _tuple(value: object, kinds: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    values = _expect(value, (list, tuple), "a list", where)
    if Ellipsis in kinds:
        kinds = (kinds[0],) * len(values)
    if len(values) != len(kinds):
        raise CovpoolError(f"`{where}` must be a list of {len(kinds)}; got {value!r}")
    return tuple(convert(v, kind, f"{where}[{i}]") for i, (v, kind) in enumerate(zip(values, kinds, strict=True)))


def _expect(value: object, kind: Any, words: str, where: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise WrongTypeError(f"`{where}` must be {words}; got {value!r} ({type(value).__name__})")
    return value


def _is_required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _known(wanted: Mapping[str, Any]) -> str:
    return f"; there are {', '.join(wanted)}"
