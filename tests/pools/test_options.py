"""Options are checked by their annotations."""

from typing import Literal

import pytest

from covpool import CovpoolError, Pool
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
        ({"rank": True}, r"`rank` must be a positive integer; got True \(bool\)"),
    ],
)
def test_other_values_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(CovpoolError, match=message):
        check_options(options, KINDS)


class Sized(Pool):
    def __init__(self, in_features: int, *, size: PositiveInt = 1, **common: object) -> None:
        super().__init__(in_features, lambda c: c, **common)


@pytest.mark.parametrize("options", [{"size": 0}, {"layout": "rows"}, {"groups": 0}])
def test_a_pool_checks_its_own_options_and_the_common_ones(options: dict[str, object]) -> None:
    assert Sized(4, size=2).out_features == 4
    with pytest.raises(CovpoolError, match=f"`{next(iter(options))}` must be"):
        Sized(4, **options)
