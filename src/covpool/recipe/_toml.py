"""Writing a recipe as TOML."""

import json
import re
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from covpool.recipe._schema import Recipe, flat_settings

RECIPE_FILE = "recipe.toml"  # in the folder of a run: all its settings
LONGEST = 68  # characters of a string on one line


def to_toml(recipe: Recipe, *, defaults: bool = True) -> str:
    """Write the settings of a recipe as TOML that `read_recipe` reads back.

    Args:
        recipe: The recipe.
        defaults: Write settings that have their default too.

    >>> to_toml(Recipe(name="mine")).splitlines()[:3]
    ['name = "mine"', 'about = ""', 'source = ""']
    >>> to_toml(Recipe(name="mine", seed=2), defaults=False).splitlines()
    ['name = "mine"', 'seed = 2']
    """
    usual = {} if defaults else dict(flat_settings(Recipe()))
    settings = {
        name: value
        for name, value in flat_settings(recipe)
        if name != "stages" and (name not in usual or value != usual[name])
    }
    parts = []
    for table, own in groupby(settings.items(), lambda setting: setting[0].rpartition(".")[0]):
        parts.append(
            (f"[{table}]\n" if table else "") + _lines({name.rpartition(".")[2]: value for name, value in own})
        )
    return "\n".join([*parts, *(f"[[stages]]\n{_lines(dict(stage))}" for stage in recipe.stages)])


def _lines(values: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {_toml(value)}\n" for key, value in values.items() if value is not None)


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(k)} = {_toml(v)}' for k, v in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return _quoted(value)
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _quoted(text: str) -> str:
    """Write a string; a long one on several lines. A backslash at the end of a line joins it with the next one."""
    quoted = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    if len(quoted) <= LONGEST:
        return quoted
    lines = [""]
    for word in re.findall(r"^ +|[^ ]+ *", quoted[1:-1]):
        if lines[-1] and len(lines[-1]) + len(word) > LONGEST:
            lines.append("")
        lines[-1] += word
    return '"""' + "\\\n".join(lines) + '"""'
