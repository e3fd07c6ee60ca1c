"""The pool of a fit, with the PCA before it."""

import pytest

from covpool.studies.fit._pool import PoolSpec


def test_second_order_is_reduced_and_first_order_is_not() -> None:
    assert PoolSpec.read("isqrt", 1280, 256).options == {"reduce_to": 256, "reduce_kind": "linear"}
    assert PoolSpec.read("isqrt", 96, 256).options == {"reduce_to": None}
    assert PoolSpec.read("avg", 1280, 256).options == {"reduce_to": None}


def test_named_options_come_first() -> None:
    spec = PoolSpec.read("isqrt:iterations=3:reduce_to=64", 1280, 256)
    assert spec.options == {"reduce_to": 64, "reduce_kind": "linear", "iterations": 3}
    assert spec.make(1280, "channels_first", 5).out_features == 64 * 65 // 2


def test_an_option_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="`pool`: isqrt cannot be built"):
        PoolSpec.read("isqrt:iteration=3", 64, 256).make(64, "auto", 5)
