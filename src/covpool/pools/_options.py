"""Options of pools, checked by their annotations."""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from covpool._check import check_choice, check_positive_int

PositiveInt = Annotated[int, "at least one"]


def check_options(options: Mapping[str, object], kinds: Mapping[str, Any]) -> None:
    """Check options: a Literal takes one of its values, a `PositiveInt` takes an integer of at least one.

    Both may be optional (`| None`). A method checks its options of other types itself.

    >>> check_options({"size": 0}, {"size": PositiveInt})
    Traceback (most recent call last):
    covpool.CovpoolError: `size` must be a positive integer; got 0
    """
    for name, value in options.items():
        kind = kinds.get(name)
        members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        types = [member for member in members if member is not NoneType]
        none = [None] if NoneType in members else []
        if all(get_origin(one) is Literal for one in types):
            check_choice(name, value, [*none, *(choice for one in types for choice in get_args(one))])
        elif types == [PositiveInt] and value not in none:
            check_positive_int(name, value)
