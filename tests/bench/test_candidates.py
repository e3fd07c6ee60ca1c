"""Every way of a comparison computes the same thing as its oracle, in float64."""

import pytest
import torch

from covpool.bench._candidates import Comparison, isqrt, operations

COMPARISONS = {"isqrt": isqrt(compiled=False), **operations()}


@pytest.mark.parametrize("name", COMPARISONS)
def test_all_ways_agree_with_the_oracle(name: str) -> None:
    comparison = COMPARISONS[name]
    x = torch.randn(2, 30, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).relu()
    assert len(comparison.ways) > 1
    for way, function in comparison.ways.items():
        expected = comparison.oracle_of(way)(x)
        assert torch.allclose(function(x), expected, rtol=1e-8, atol=1e-10), way


def test_an_oracle_of_its_own_for_each_way() -> None:
    ways = {"sum": torch.sum, "mean": torch.mean}
    assert Comparison(ways, dict(ways)).oracle_of("mean") is torch.mean
    assert Comparison(ways, torch.sum).oracle_of("mean") is torch.sum
