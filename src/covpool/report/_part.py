"""A part of a report, or the sentence that stands in its place."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from covpool._errors import CovpoolError

T = TypeVar("T")


@dataclass(frozen=True)
class Part(Generic[T]):
    """What could be made, or why it could not."""

    value: T | None = None
    problem: str = ""


def attempt(make: Callable[[], T]) -> Part[T]:
    """What `make` gives; a report goes without what is missing.

    >>> attempt(lambda: open("/nowhere/recipe.toml")).problem
    "[Errno 2] No such file or directory: '/nowhere/recipe.toml'"
    """
    try:
        return Part(make())
    except (ImportError, OSError, ValueError, RuntimeError) as error:
        return Part(problem=str(error))


def given(part: Part[T]) -> T:
    """What another part needs of this one; without it, that one cannot be made for the same reason."""
    if part.value is None:
        raise CovpoolError(part.problem)
    return part.value
