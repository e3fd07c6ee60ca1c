"""Options are checked by their annotations."""

import inspect
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from covpool import CovpoolError, Pool
from covpool._errors import WrongTypeError
from covpool.pools._options import PositiveInt, check_options

KINDS = {
    "form": Literal["a", "b"],
    "norm": Literal["l2"] | None,
    "size": PositiveInt,
    "rank": PositiveInt | None,
    "eps": Literal["rank"] | float,
    "seed": int,
}


@pytest.mark.parametrize(
    "options",
    [{"form": "b"}, {"norm": None}, {"size": 1}, {"rank": None}, {"eps": 0.5}, {"eps": "no"}, {"seed": -1}, {"x": 0}],
)
def test_valid_options_and_options_of_other_types_pass(options: dict[str, object]) -> None:
    check_options(options, KINDS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "c"}, r"`form` must be one of \['a', 'b'\]; got 'c'"),
        ({"form": None}, r"`form` must be one of \['a', 'b'\]; got None"),
        ({"norm": "l3"}, r"`norm` must be one of \[None, 'l2'\]; got 'l3'"),
        ({"size": 0}, "`size` must be a positive integer; got 0"),
        ({"scale": float("nan")}, "`scale` must be a finite number; got nan"),
        ({"scale": float("inf")}, "`scale` must be a finite number; got inf"),
        ({"rank": True}, r"`rank` must be a positive integer; got True \(bool\)"),
    ],
)
def test_other_values_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(CovpoolError, match=message):
        check_options(options, KINDS)


class Sized(Pool):
    size: PositiveInt = 1

    def _pool(self, x: Tensor) -> Tensor:
        return x.mean(1)


class Scaled(Sized):
    """A pool whose option has the name of its parameter, so that it has an `__init__` of its own."""

    size: PositiveInt = 2

    def __init__(self, in_features: int, *, scale: float = 1.0, **options: object) -> None:
        super().__init__(in_features, **options)
        self.scale = nn.Parameter(torch.tensor(scale))


def test_options_are_attributes_with_a_default_or_keywords_of_an_initializer() -> None:
    assert Sized.own_options() == {"size": 1} and Scaled.own_options() == {"scale": 1.0, "size": 2}
    assert list(Scaled.option_types())[:3] == ["scale", "size", "layout"]
    pool = Scaled(4, scale=3.0, size=5, layout="tokens")
    assert (pool.scale.item(), pool.size, pool.layout) == (3.0, 5, "tokens")
    assert Sized(4).size == 1 and Scaled(4).options == {"size": 2}
    with pytest.raises(WrongTypeError, match="Sized has no option length"):
        Sized(4, length=3)


@pytest.mark.parametrize("options", [{"size": 0}, {"layout": "rows"}, {"groups": 0}])
def test_a_pool_checks_its_own_options_and_the_common_ones(options: dict[str, object]) -> None:
    assert Sized(4, size=2).out_features == 4
    with pytest.raises(CovpoolError, match=f"`{next(iter(options))}` must be"):
        Sized(4, **options)


def test_the_signature_of_a_pool_lists_its_own_options_and_the_common_ones() -> None:
    parameters = inspect.signature(Scaled).parameters
    assert list(parameters)[:4] == ["in_features", "scale", "size", "layout"] and "groups" in parameters
    assert (parameters["size"].default, parameters["size"].annotation) == (2, int)
