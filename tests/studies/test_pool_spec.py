"""Pools for frozen features, from their labels."""

import pytest
import torch

from covpool.studies._pool_spec import PoolSpec


def test_second_order_is_reduced_and_first_order_is_not() -> None:
    assert PoolSpec.read("isqrt", 1280, "channels_first", 5, width=256).options == {
        "reduce_to": 256,
        "reduce_kind": "linear",
    }
    assert PoolSpec.read("isqrt", 96, "channels_first", 5, width=256).options["reduce_to"] is None
    assert PoolSpec.read("avg", 1280, "channels_first", 5, width=256).options["reduce_to"] is None


def test_named_options_come_first() -> None:
    spec = PoolSpec.read("isqrt:iterations=3:reduce_to=64", 1280, "channels_first", 5, width=256)
    assert spec.options == {"reduce_to": 64, "reduce_kind": "linear", "iterations": 3}
    assert spec.make()[0].out_features == 64 * 65 // 2


def test_an_option_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="the pool isqrt cannot be built"):
        PoolSpec.read("isqrt:iteration=3", 64, "auto", 5, width=256).make()


def test_the_seed_decides_and_torchs_random_state_is_untouched() -> None:
    spec = PoolSpec.read("svpn:heads=2:head_features=4", 16, "auto", 5, width=8)
    before = torch.get_rng_state()
    one, two, other = (next(spec.make(seed=seed)[0].parameters()) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state()) and torch.equal(one, two) and not torch.equal(one, other)
