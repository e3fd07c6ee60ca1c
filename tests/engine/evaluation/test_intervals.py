"""Intervals against scipy, and against known differences."""

import pytest
import torch
from scipy.stats import binomtest

from covpool.engine.evaluation._intervals import bootstrap, wilson


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (10, 10), (90, 100), (3, 7)])
def test_wilson_against_scipy(hits: int, trials: int) -> None:
    expected = binomtest(hits, trials).proportion_ci(method="wilson")
    assert wilson(hits, trials) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_a_clear_difference_is_found_and_noise_is_not_ranked() -> None:
    generator = torch.Generator().manual_seed(0)
    good, same = ((torch.rand(3, 400, generator=generator) < 0.9).float() for _ in range(2))
    bad = (torch.rand(3, 400, generator=generator) < 0.7).float()
    low, high = bootstrap(good - bad)
    assert 0.1 < low < (good - bad).mean() < high < 0.3
    low, high = bootstrap(good - same)
    assert low < 0 < high


def test_the_width_is_that_of_the_images_where_seeds_agree() -> None:
    right = (torch.arange(400) < 200).float().expand(3, -1)
    low, high = bootstrap(right)
    deviation = (0.25 / 400) ** 0.5
    assert (low, high) == pytest.approx((0.5 - 1.96 * deviation, 0.5 + 1.96 * deviation), abs=0.004)
