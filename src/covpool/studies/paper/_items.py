"""The tables and figures of the paper, read from `items.toml`."""

import tomllib
from functools import cache
from importlib.resources import files

from covpool._check import did_you_mean
from covpool._errors import CovpoolError
from covpool._settings import Settings


class Item(Settings):
    """A numbered table or figure of the paper.

    Attributes:
        name: Its number, such as "table 8" or "figure 6a".
        title: What it shows.
    """

    name: str
    title: str


@cache
def list_items() -> tuple[Item, ...]:
    """Return all items, tables first.

    >>> list_items()[0].name
    'table 1'
    """
    text = files("covpool.studies.paper").joinpath("items.toml").read_text("utf-8")
    return tuple(Item(**entry) for entry in tomllib.loads(text)["items"])


def find_item(name: str) -> Item:
    """Return the item with a name such as "table 8"."""
    known = {item.name: item for item in list_items()}
    if name not in known:
        raise CovpoolError(f"the paper has no {name}{did_you_mean(name, known)}; `covpool paper --list` lists all")
    return known[name]
