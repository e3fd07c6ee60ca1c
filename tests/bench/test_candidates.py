"""Every candidate agrees with its oracle in float64."""

import pytest
import torch

from covpool.bench._candidates import CandidateSet, isqrt, operations

COMPARISONS = {"isqrt": isqrt(compiled=False), **operations()}


@pytest.mark.parametrize("name", COMPARISONS)
def test_candidates_agree_with_the_oracle(name: str) -> None:
    comparison = COMPARISONS[name]
    x = torch.randn(2, 30, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).relu()
    assert len(comparison.candidates) > 1
    for candidate, function in comparison.candidates.items():
        expected = comparison.oracle_of(candidate)(x)
        assert torch.allclose(function(x), expected, rtol=1e-8, atol=1e-10), candidate


def test_a_candidate_can_have_its_own_oracle() -> None:
    candidates = {"sum": torch.sum, "mean": torch.mean}
    assert CandidateSet(candidates, dict(candidates)).oracle_of("mean") is torch.mean
    assert CandidateSet(candidates, torch.sum).oracle_of("mean") is torch.sum
