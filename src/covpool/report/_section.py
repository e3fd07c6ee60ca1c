"""The contents of a section of the report, or the reason why it is missing."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from covpool._errors import CovpoolError

T = TypeVar("T")


@dataclass(frozen=True)
class Section(Generic[T]):
    """A value, or the reason why there is none."""

    value: T | None = None
    problem: str = ""


def attempt(make: Callable[[], T]) -> Section[T]:
    """Make a section; an error that is not a bug becomes its reason for being missing.

    >>> attempt(lambda: open("/nowhere/recipe.toml")).problem
    "[Errno 2] No such file or directory: '/nowhere/recipe.toml'"
    """
    try:
        return Section(make())
    except (CovpoolError, OSError, torch.OutOfMemoryError) as error:
        return Section(problem=str(error))


def required(section: Section[T]) -> T:
    """The value of a section that another one needs; if it is missing, the other is missing for the same reason."""
    if section.value is None:
        raise CovpoolError(section.problem)
    return section.value
