"""The table of pools: name -> class, with the description that listings show."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, TypeVar

from covpool._errors import CovpoolError, WrongTypeError, did_you_mean

if TYPE_CHECKING:
    from covpool.pools.base import Pool

P = TypeVar("P", bound="type[Pool]")

ENTRY_POINTS = "covpool.pools"  # the group in which an installed package names its modules with pools


@dataclass(frozen=True)
class PoolInfo:
    """The description of a pooling method.

    Attributes:
        name: Registry key, which is also the name of the file, test and docs page, and the command-line value.
        title: Name of the method in its paper.
        paper: Authors, title, venue and year of the paper.
        order: Order of the statistics that the method keeps.
        formula: What the method computes, in one line.
        size: Length of the representation, as a formula in c, the number of channels after the reduction.
        cost: Multiply-adds per image, as a formula in n positions, c channels and the method's options.
        options: The method's own keyword arguments and their defaults.
        meanings: What each of these arguments does, as the docstring of the class says it.
    """

    name: str
    title: str
    paper: str
    order: str
    formula: str
    size: str
    cost: str
    options: dict[str, Any] = field(default_factory=dict)
    meanings: dict[str, str] = field(default_factory=dict)


_POOLS: dict[str, tuple[type[Pool], PoolInfo]] = {}
LABELS = {"paper": "Reference", "formula": "Formula", "size": "Size", "cost": "Cost"}  # in the docstring of a pool
_PLUGINS_ALLOWED: ContextVar[bool] = ContextVar("plugins_allowed", default=True)


def register(name: str, *, title: str, order: str, **about: str) -> Callable[[P], P]:
    """Make a `Pool` subclass available by name to `create_pool`, the command line, listings, tests and benchmarks.

    Use it as a decorator. Each name can be registered only once.

    Args:
        name: The name, see `PoolInfo`, which describes the other arguments too.
        title: Name of the method in its paper.
        order: Order of the statistics that it keeps.
        about: `paper`, `formula`, `size` and `cost`. By default they are what the docstring of the class says after
            "Reference:", "Formula:", "Size:" and "Cost:".

    >>> import covpool
    >>> @covpool.register("half_avg", title="Half average", order="1")
    ... class HalfAverage(covpool.Pool):
    ...     '''Half the mean of the features over positions.
    ...
    ...     Formula: z = mean of x / 2
    ...     '''
    ...     def _pool(self, x):
    ...         return x.mean(1) / 2
    >>> covpool.create_pool("half_avg", 16).out_features, covpool.pool_info("half_avg").formula
    (16, 'z = mean of x / 2')
    >>> covpool.unregister("half_avg")
    """

    if unknown := about.keys() - LABELS.keys():
        raise WrongTypeError(f"a pool is described by {', '.join(LABELS)}; got {', '.join(sorted(unknown))}")

    def add(cls: P) -> P:
        if name in _POOLS and _POOLS[name][0] is not cls:
            raise CovpoolError(
                f"a pool named {name!r} is already registered, as {_POOLS[name][0].__qualname__}: choose another name"
            )
        found = {key: documented(cls, label) for key, label in LABELS.items()}
        options = cls.own_options()
        meanings = documented_options(options, cls.__mro__)
        _POOLS[name] = cls, PoolInfo(name, title, order=order, options=options, meanings=meanings, **(found | about))
        return cls

    return add


def documented(what: object, label: str) -> str:
    """Return what a docstring says after a label such as "Formula:", up to the next label or an empty line.

    >>> documented(unregister, "Formula")
    ''
    """
    found = re.search(rf"^{label}: (.+?)(?=\n\n|\n[A-Z]\w+: |\Z)", inspect.cleandoc(what.__doc__ or ""), re.M | re.S)
    return " ".join(found[1].split()) if found else ""


def documented_options(options: Iterable[str], sources: Iterable[object]) -> dict[str, str]:
    """Return what docstrings say about each option in their section "Args"; the first one that has it counts.

    >>> documented_options(["order", "color"], [register])
    {'order': 'Order of the statistics that it keeps.', 'color': ''}
    """
    text = "\n".join(inspect.cleandoc(source.__doc__ or "") for source in sources)
    pattern = r"^    (?:\w+, )*%s(?:, \w+)*: (.+(?:\n {8}.+)*)"  # one line may describe several options
    found = {key: re.search(pattern % key, text, re.MULTILINE) for key in options}
    return {key: " ".join(match[1].split()) if match else "" for key, match in found.items()}


def unregister(name: str) -> None:
    """Remove a pool from the table."""
    _find(name)
    del _POOLS[name]


def load_plugins(modules: Iterable[str]) -> None:
    """Import modules that register pools, such as a file of your own beside your script.

    Args:
        modules: Names of modules, as in an import statement.

    >>> load_plugins(["covpool.pools.isqrt"])
    """
    for module in modules:
        _load_plugin(f"plugin {module!r}", partial(importlib.import_module, module))


@contextmanager
def without_plugins() -> Iterator[None]:
    """While active, use the pools that are already registered and import no installed plugin.

    Loading a checkpoint runs inside it: a file must not decide which code is imported.
    """
    token = _PLUGINS_ALLOWED.set(False)
    try:
        yield
    finally:
        _PLUGINS_ALLOWED.reset(token)


def list_pools() -> list[str]:
    """Return the names of all pools, those of installed plugins included, in the order of registration."""
    _load_installed_plugins()
    return list(_POOLS)


def registered_classes() -> list[type[Pool]]:
    """Return the classes of all pools that are registered so far."""
    return [cls for cls, _ in _POOLS.values()]


def pool_info(name: str) -> PoolInfo:
    """Return the description of a pool.

    >>> pool_info("isqrt").size
    'c (c + 1) / 2'
    """
    return _find(name)[1]


def pool_name(pool: Pool) -> str | None:
    """Return the name under which the class of a pool is registered, or None.

    >>> pool_name(create_pool("isqrt", 16))
    'isqrt'
    """
    return next((name for name, (cls, _) in _POOLS.items() if type(pool) is cls), None)


def option_types(name: str) -> dict[str, Any]:
    """Return the annotations of all options of a pool, its own and the common ones; Any for an option without one.

    >>> option_types("isqrt")["iterations"], option_types("isqrt")["groups"]
    (<class 'int'>, <class 'int'>)
    """
    return _find(name)[0].option_types()


def create_pool(name: str, in_features: int | tuple[int, ...], **options: Any) -> Pool:
    """Build a pool by name.

    Args:
        name: One of `list_pools()`.
        in_features: Number of channels of the features; a tuple for a pool of several feature tensors.
        options: The method's own options (`pool_info(name).options`) and the common options of `Pool`.

    >>> create_pool("isqrt", in_features=512, reduce_to=64).out_features
    2080
    """
    cls, _ = _find(name)
    known = list(cls.option_types())
    for key in options:
        if key not in known:
            raise WrongTypeError(
                f"pool {name!r} has no option {key!r}{did_you_mean(key, known)}; it takes {', '.join(known)}"
            )
    return cls(in_features, **options)


def _find(name: str) -> tuple[type[Pool], PoolInfo]:
    if name not in _POOLS:
        _load_installed_plugins()
    if name not in _POOLS:
        raise CovpoolError(
            f"unknown pool {name!r}{did_you_mean(name, _POOLS)}; the pools are {', '.join(_POOLS)}: "
            "to use a pool of your own, import its module or pass `--plugin MODULE`"
        )
    return _POOLS[name]


def _load_installed_plugins() -> None:
    if _PLUGINS_ALLOWED.get():
        _load_entry_points()


@cache
def _load_entry_points() -> None:
    """Import the modules that installed packages name in the entry-point group `covpool.pools`."""
    for entry in entry_points(group=ENTRY_POINTS):
        _load_plugin(f"plugin {entry.value!r} (installed entry point {entry.name!r})", entry.load)


def _load_plugin(what: str, load: Callable[[], object]) -> None:
    try:
        load()
    except Exception as error:  # a plugin is foreign code and may fail in any way
        raise CovpoolError(
            f"{what} must import without errors; got {type(error).__name__}: {error}: fix or remove it"
        ) from error
