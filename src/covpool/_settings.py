"""Typed settings: the base class of recipes and probes, and the messages about mistakes in them."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler
from pydantic import field_validator as check_field
from pydantic_core import PydanticCustomError

from covpool._errors import CovpoolError, WrongTypeError, did_you_mean

Location = Sequence[int | str]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Width = Annotated[int, Field(ge=1, le=1_000_000)]  # of a layer
LARGEST = 1e15  # of a number that is no whole one: float32 holds the product of two
Side = Annotated[int, Field(ge=1, le=16_384)]  # of an image, in pixels


class Text(str):
    """A value typed on the command line. The type of the setting decides whether it is text or TOML."""

    def as_toml(self) -> Any:
        """Read the value as TOML. A value that is not TOML is plain text.

        >>> Text("[1, 2]").as_toml(), Text("bf16").as_toml()
        ([1, 2], 'bf16')
        """
        try:
            return tomllib.loads(f"value = {self}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):
            return str(self)


def _read_texts(table: Any) -> Any:
    if not isinstance(table, Mapping):
        return table
    return {key: value.as_toml() if isinstance(value, Text) else value for key, value in table.items()}


Options = Annotated[dict[str, Any], BeforeValidator(_read_texts)]  # keyword arguments of a function of another library


class Settings(BaseModel):
    """A table of typed settings. It is frozen, and every mistake in it raises CovpoolError with one line per mistake.

    >>> class Train(Settings):
    ...     epochs: int = 1
    >>> Train(epochs=Text("5"))
    Train(epochs=5)
    >>> Train(epoch=5)
    Traceback (most recent call last):
    covpool.CovpoolError: unknown setting `train.epoch` (did you mean 'train.epochs'?); the settings are train.epochs
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )
    IS_TABLE: ClassVar[bool] = True  # of a recipe, and named as the class: `Train` holds the settings train.*

    def __init__(self, /, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _explain(error, type(self)) from None

    # This tells pydantic not to call __init__ for nested tables, so that errors name settings from the outermost one.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @check_field("*", mode="wrap")
    @classmethod
    def _read(cls, value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        """Accept lists for tuples, and values typed on the command line: as text where text is valid, else as TOML."""
        if isinstance(value, Text):
            try:
                return validate(str(value))
            except ValidationError:
                value = value.as_toml()
        found = validate(tuple(value) if isinstance(value, list) else value)
        numbers = found if isinstance(found, tuple) else (found,)
        if any(isinstance(number, float) and abs(number) > LARGEST for number in numbers):
            raise PydanticCustomError("too_large", "too large")
        return found

    def changed(self, **values: Any) -> Self:
        """Return a checked copy with some settings changed; a mapping changes single settings of a table.

        >>> class Train(Settings):
        ...     epochs: int = 1
        >>> class Recipe(Settings):
        ...     seed: int = 0
        ...     train: Train = Train()
        >>> Recipe(seed=3).changed(train={"epochs": 2})
        Recipe(seed=3, train=Train(epochs=2))
        """
        known = dict(self)
        for key, value in values.items():
            table = known.get(key)
            if isinstance(table, Settings) and isinstance(value, Mapping):
                value = table.changed(**value)
            known[key] = value
        return type(self)(**known)


def is_list(model: type[BaseModel], key: str) -> bool:
    """Tell whether a setting, named as on the command line, takes a list. Settings without a known type do not."""
    schema = model.model_json_schema()
    try:
        found = _at(schema, [int(step) if step.isdecimal() else step for step in key.split(".")])
    except (KeyError, IndexError):
        return False
    return any(kind.get("type") == "array" for kind in found.get("anyOf", [found]))


def in_words(schema: Mapping[str, Any], *, none: str = "") -> str:
    """Describe what a JSON schema accepts.

    Args:
        schema: Schema of one value.
        none: How null is written; null is left out when this is empty.

    >>> in_words({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "array", "items": {"type": "number"}}]})
    'a positive integer or a list (a number each)'
    """
    if "anyOf" in schema:
        return " or ".join(filter(None, (in_words(kind, none=none) for kind in schema["anyOf"])))
    if "enum" in schema or "const" in schema:
        return " or ".join(map(repr, schema.get("enum", [schema.get("const")])))
    kind = schema.get("type", "")
    if kind == "array":
        items = schema.get("items") or schema.get("prefixItems", [{}])[0]
        count = f" of {schema['maxItems']}" if "maxItems" in schema else ""
        return f"a list{count} ({in_words(items)} each)" if "type" in items or "anyOf" in items else f"a list{count}"
    if kind in ("integer", "number"):
        return _number_in_words(schema)
    return {"boolean": "true or false", "object": "a table", "null": none, "string": "text"}.get(kind, "a table")


def _number_in_words(schema: Mapping[str, Any]) -> str:
    kind = "a whole number" if schema["type"] == "integer" else "a number"
    if schema["type"] == "integer" and (schema.get("minimum") == 1 or schema.get("exclusiveMinimum") == 0):
        kind, schema = "a positive integer", {name: schema[name] for name in schema if "aximum" in name}
    names = {"minimum": "at least", "exclusiveMinimum": "more than", "maximum": "at most", "exclusiveMaximum": "below"}
    bounds = [f"{words} {schema[name]:.10g}" for name, words in names.items() if name in schema]
    return f"{kind}, {' and '.join(bounds)}" if bounds else kind


def _explain(error: ValidationError, model: type[Settings]) -> CovpoolError:
    schema = model.model_json_schema()
    table = (model.__name__.lower(),) if model.IS_TABLE else ()
    mistakes = error.errors(include_url=False)
    wrong_type = all(mistake["type"].endswith("_type") for mistake in mistakes)
    lines = dict.fromkeys(_line(mistake, schema, table) for mistake in mistakes)
    return (WrongTypeError if wrong_type else CovpoolError)("\n".join(lines))


def _line(mistake: Any, schema: dict[str, Any], table: tuple[str, ...]) -> str:
    """Describe one mistake that pydantic found: the setting, what it must be, what came."""
    kind, place, value = mistake["type"], mistake["loc"], mistake["input"]
    if kind == "value_error":  # of a check beside the settings, with a message of its own
        return str(mistake["ctx"]["error"])
    if kind == "missing" and isinstance(place[-1], int):  # a list that is too short
        place = place[:-1]
    if isinstance(place[-1], str) and _is_choice(_at(schema, place[:-1])):  # a mistake for each of several types
        kind, place = "union", place[:-1]
    name = ".".join(map(str, (*table, *place)))
    if kind == "missing" and isinstance(value, Mapping):
        return f"`{name}` must be set"
    if kind == "extra_forbidden":
        names = [".".join((*table, *key)) for key in _keys(schema, schema)]
        beside = [key for key in names if key.rpartition(".")[0] == name.rpartition(".")[0]]
        return f"unknown setting `{name}`{did_you_mean(name, names)}; the settings are {', '.join(beside)}"
    wanted = _at(schema, place)
    came = f" ({type(value).__name__})" if kind.endswith("_type") else ""
    shown = list(value) if isinstance(value, tuple) else value
    near = did_you_mean(value, wanted.get("enum", ()))
    other = {"finite_number": "a finite number", "too_large": f"at most {LARGEST:g}"}
    words = other.get(kind) or in_words(wanted)
    return f"`{name}` must be {words}; got {shown!r}{came}{near}"


def _at(schema: dict[str, Any], place: Location) -> dict[str, Any]:
    """Return the part of a JSON schema that describes one setting."""
    found = schema
    for step in place:
        found = found["anyOf"][0] if "anyOf" in found else found
        if isinstance(step, int):
            found = found["items"] if "items" in found else found["prefixItems"][step]
        else:
            found = found["properties"][step]
        if "$ref" in found:
            found = schema["$defs"][found["$ref"].rpartition("/")[2]]
    return found


def _is_choice(schema: dict[str, Any]) -> bool:
    """Tell whether a setting takes plain values of several types."""
    return "anyOf" in schema and not any("$ref" in kind for kind in schema["anyOf"])


def _keys(table: dict[str, Any], schema: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the names of all tables and settings."""
    for key in table["properties"]:
        yield (*above, key)
        inner = _at({**table, "$defs": schema.get("$defs", {})}, [key])
        if "properties" in inner:
            yield from _keys(inner, schema, (*above, key))
