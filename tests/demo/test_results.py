from dataclasses import replace

import pytest
import torch

from covpool.demo._results import PoolResult, verdict
from covpool.diagnostics import Spectra
from covpool.report._history import Series

RESULT = PoolResult(
    pool="isqrt",
    top1=0.7,
    seeds=[0.7],
    interval=(0.6, 0.8),
    difference=0.0,
    difference_interval=(0.0, 0.0),
    size=1,
    parameters=1,
    lr=0.1,
    seconds=1.0,
    curve=Series("", [], []),
    spectra=Spectra(torch.ones(1, 1), None, 1),
)


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        ((0.01, 0.05), "better than average pooling here"),
        ((-0.05, -0.01), "worse than average pooling here"),
        ((-0.01, 0.05), "no difference beyond the noise"),
        ((0.0, 0.05), "no difference beyond the noise"),
        (None, "the baseline"),
    ],
)
def test_only_differences_beyond_the_noise_are_ranked(interval: tuple[float, float] | None, said: str) -> None:
    difference = None if interval is None else sum(interval) / 2
    assert verdict(replace(RESULT, difference=difference, difference_interval=interval)) == said
