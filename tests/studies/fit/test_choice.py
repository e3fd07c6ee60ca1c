"""Pools of a fit, and the choice among candidates: the simplest one within a standard error of the best."""

import pytest

from covpool.studies.fit import Candidate
from covpool.studies.fit._choice import PoolSpec, Trial, choose


def trial(pool: str, accuracy: float, *, size: int = 224, length: int = 1000, level: str = "") -> Trial:
    return Trial(Candidate(pool, size, level), length, accuracy, 0.01, 1e-5, {1e-5: accuracy}, 0.1)


def test_a_clear_winner_is_chosen() -> None:
    best = trial("gaussian", 0.9, size=320, length=33_000)
    assert choose([trial("avg", 0.85), trial("isqrt", 0.88), best]) is best


def test_the_first_order_is_simplest_at_any_size() -> None:
    average = trial("avg", 0.895, size=320)
    assert choose([trial("isqrt", 0.9), trial("avg", 0.85), average]) is average


def test_smaller_images_come_before_shorter_vectors() -> None:
    small = trial("isqrt", 0.895, length=2000)
    assert choose([trial("isqrt", 0.9, size=320, length=1000), small]) is small
    short = trial("isqrt", 0.892, length=1500)
    assert choose([small, short]) is short


def test_equal_candidates_are_chosen_in_their_order() -> None:
    first, second = trial("avg", 0.9), trial("gem", 0.9)
    assert choose([first, second]) is first


def test_a_trial_is_plain_json() -> None:
    found = trial("isqrt", 0.5, level="layer3").as_json()
    assert found["pool"] == "isqrt" and found["level"] == "layer3" and found["accuracies"] == {"1e-05": 0.5}


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
