"""The table of pools: name -> class, with what is said of each in listings. Knows no pool itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from covpool._check import did_you_mean
from covpool._errors import CovpoolError, WrongTypeError

if TYPE_CHECKING:
    from covpool.pools.base import Pool

P = TypeVar("P", bound="type[Pool]")


@dataclass(frozen=True)
class PoolInfo:
    """What is known of a pooling method before one is built.

    Attributes:
        name: the key, which is also the file, the test id, the docs page and the command-line value.
        title: the method's name in its paper.
        paper: where it comes from.
        order: the order of the statistics it keeps.
        formula: what it computes, in one line.
        size: representation size as a formula in c, the channels after reduction.
        cost: multiply-adds per image, as a formula in n positions and c channels.
        options: its own keyword arguments and their defaults.
    """

    name: str
    title: str
    paper: str
    order: str
    formula: str
    size: str
    cost: str
    options: dict[str, Any] = field(default_factory=dict)


_POOLS: dict[str, tuple[type[Pool], PoolInfo]] = {}


def register(name: str, *, title: str, paper: str, order: str, formula: str, size: str, cost: str) -> Callable[[P], P]:
    """Decorate a `Pool` subclass to make it available by name, to `create_pool`, the listings, tests and benchmarks.

    The arguments are those of `PoolInfo`. A name can be taken only once.

    >>> import covpool
    >>> @covpool.register("half_avg", title="Half average", paper="", order="1", formula="x / 2", size="c", cost="n c")
    ... class HalfAverage(covpool.Pool):
    ...     def __init__(self, in_features, **common):
    ...         super().__init__(in_features, lambda c: c, **common)
    ...     def _pool(self, x, *, mask=None, weights=None):
    ...         return x.mean(1) / 2
    >>> covpool.create_pool("half_avg", 16).out_features
    16
    >>> covpool.unregister("half_avg")
    """

    def add(cls: P) -> P:
        if name in _POOLS and _POOLS[name][0] is not cls:
            raise CovpoolError(
                f"a pool named {name!r} is registered already, as {_POOLS[name][0].__qualname__}: choose another name"
            )
        options = {key: parameter.default for key, parameter in _keywords(cls.__init__).items()}
        _POOLS[name] = cls, PoolInfo(name, title, paper, order, formula, size, cost, options)
        return cls

    return add


def unregister(name: str) -> None:
    """Take a pool of your own out of the table again."""
    _find(name)
    del _POOLS[name]


def list_pools() -> list[str]:
    """The names of all pools, in order of registration."""
    return list(_POOLS)


def pool_info(name: str) -> PoolInfo:
    """What is known of one pool.

    >>> pool_info("isqrt").size
    'c (c + 1) / 2'
    """
    return _find(name)[1]


def pool_name(pool: Pool) -> str | None:
    """The name under which the method of a pool is registered; None for one that is not.

    >>> pool_name(create_pool("isqrt", 16))
    'isqrt'
    """
    return next((name for name, (cls, _) in _POOLS.items() if type(pool) is cls), None)


def option_types(name: str) -> dict[str, Any]:
    """The annotations of all options of a pool, its own and those common to all pools; Any where there is none.

    >>> option_types("isqrt")["iterations"], option_types("isqrt")["groups"]
    (<class 'int'>, <class 'int'>)
    """
    kinds: dict[str, Any] = {}
    for make in reversed(_initialisers(_find(name)[0])):
        try:
            hints = get_type_hints(make)
        except NameError:  # a name that is imported for type checkers alone
            hints = {}
        kinds |= {key: hints.get(key, Any) for key in _keywords(make)}
    return kinds


def create_pool(name: str, in_features: int | tuple[int, ...], **options: Any) -> Pool:
    """Build a pool by name.

    Args:
        name: one of `list_pools()`.
        in_features: channels of the features it will get; a tuple for pools of several feature tensors.
        options: the method's own options (`pool_info(name).options`) and those common to all pools (`Pool`).

    >>> create_pool("isqrt", in_features=512, reduce_to=64).out_features
    2080
    """
    cls, _ = _find(name)
    known = [key for make in _initialisers(cls) for key in _keywords(make)]
    for key in options:
        if key not in known:
            raise WrongTypeError(
                f"pool {name!r} has no option {key!r}{did_you_mean(key, known)}; it takes {', '.join(known)}"
            )
    return cls(in_features, **options)


def _find(name: str) -> tuple[type[Pool], PoolInfo]:
    if name not in _POOLS:
        raise CovpoolError(
            f"there is no pool named {name!r}{did_you_mean(name, _POOLS)}; there are {', '.join(_POOLS)}"
        )
    return _POOLS[name]


def _initialisers(cls: type[Pool]) -> list[Callable[..., None]]:
    """Of a class and of those it derives from: together they take all options."""
    return [vars(base)["__init__"] for base in cls.__mro__ if "__init__" in vars(base)]


def _keywords(function: Callable[..., None]) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters
    return {key: p for key, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}
