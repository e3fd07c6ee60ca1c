"""Settings as they are typed on the command line: "table.key=value"."""

import re
from collections.abc import Iterable
from typing import Any

from covpool._errors import CovpoolError
from covpool._settings import Text


def set_value(table: dict[str, Any], override: str) -> None:
    """Put a setting typed as "table.key=value" into a table of tables."""
    key, equals, value = override.partition("=")
    *above, last = key.strip().split(".")
    if not equals or not last:
        raise CovpoolError(f"a setting is written table.key=value, as in optimizer.lr=0.01; got {override!r}")
    at: Any = table
    for step in above:
        at = at.setdefault(step, {}) if isinstance(at, dict) else _element(at, step, key)
    if not isinstance(at, dict):
        raise CovpoolError(f"`{key}` cannot be set: {'.'.join(above)} is {at!r}, not a table")
    at[last] = Text(value.strip())


def read_settings(settings: Iterable[str], **table: Any) -> dict[str, Any]:
    """A table of tables with settings that are typed as "table.key=value"."""
    for setting in settings:
        set_value(table, setting)
    return table


def listed(value: str) -> list[Any] | None:
    """Return the elements of a list as it is typed, words without quotes included, or None if it is not a list.

    >>> listed("[0.3, 0.5]"), listed("[isqrt, spdnet:dims=[8,4], 3]"), listed("isqrt")
    ([0.3, 0.5], ['isqrt', 'spdnet:dims=[8,4]', 3], None)
    """
    if not (value.startswith("[") and value.endswith("]")):
        return None
    read = Text(value).as_toml()
    if isinstance(read, list):
        return read
    words = [word.strip() for word in re.split(r",(?![^\[\]]*\])", value[1:-1])]
    return [Text(word).as_toml() for word in words if word]


def _element(values: Any, position: str, key: str) -> Any:
    if not isinstance(values, list) or not position.isdecimal() or int(position) >= len(values):
        raise CovpoolError(f"`{key}` cannot be set: there is no element {position!r} in {values!r}")
    return values[int(position)]
