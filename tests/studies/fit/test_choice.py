"""The choice among candidates: the simplest one within a standard error of the best."""

from covpool.studies.fit import Candidate
from covpool.studies.fit._choice import Trial, choose


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
