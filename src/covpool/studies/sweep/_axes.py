"""The settings of a sweep: which of them are lists of values to try, and the grid of all combinations."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

from covpool._errors import CovpoolError
from covpool._settings import is_list
from covpool.recipe import Recipe, listed

REPEATS = ("seed", "data.split")  # settings that results are averaged over


@dataclass(frozen=True)
class Axis:
    """One setting and its values, as they are typed on the command line."""

    key: str
    values: tuple[str, ...]


Point = dict[str, str]  # one value of every axis, by key


def read_axes(settings: Iterable[str]) -> tuple[list[Axis], list[str]]:
    """Separate settings with a list of values to try from the others.

    The values of a list are tried one by one. For a setting that takes a list itself, such as `schedule.milestones`, or
    an option of a pool that takes one, the values are written as a list of lists.

    >>> read_axes(["pool.alpha=[0.3,0.5]", "seed=[0,1]", "train.epochs=2", "schedule.milestones=[3,5]"])[0]
    [Axis(key='pool.alpha', values=('0.3', '0.5')), Axis(key='seed', values=('0', '1'))]
    """
    axes, fixed = [], []
    for setting in settings:
        key, _, value = setting.partition("=")
        values = listed(value.strip())
        if values is None or (is_list(Recipe, key.strip()) and not all(isinstance(v, list) for v in values)):
            fixed.append(setting)
            continue
        if not values:
            raise CovpoolError(f"`{key}` must have at least one value to try; got {value}")
        axes.append(Axis(key.strip(), tuple(dict.fromkeys(map(_typed_again, values)))))
    keys = [axis.key for axis in axes]
    twice = [key for key in keys if keys.count(key) > 1]
    if twice:
        raise CovpoolError(f"`{twice[0]}` is given twice: write all its values in one list")
    return axes, fixed


def grid(axes: Iterable[Axis]) -> list[Point]:
    """Return every combination. The last axis changes fastest."""
    return [dict(pairs) for pairs in product(*([(axis.key, value) for value in axis.values] for axis in axes))]


def _typed_again(value: object) -> str:
    """Write a value of a list as it is typed alone."""
    if isinstance(value, list):
        return f"[{', '.join(map(_typed_again, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
