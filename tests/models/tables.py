"""Exact figures of the paper's networks, worked out from its tables."""

from collections.abc import Iterable
from typing import Any

import pytest

# number of parameters
COUNTS = {
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "resnet18_isqrt_32k": 44_205_096,
    "resnet18_isqrt_8k": 19_598_120,
    "resnet18_isqrt_8k_direct": 19_499_304,
    "resnet34_isqrt_32k": 54_313_256,
    "resnet34_isqrt_8k": 29_706_280,
    "resnet50_isqrt_32k": 56_929_832,
    "resnet50_isqrt_8k": 32_322_856,
    "resnet101_isqrt_32k": 75_921_960,
    "resnet101_isqrt_8k": 51_314_984,
    "resnet152_isqrt_32k": 91_565_608,
    "densenet201": 20_013_928,
    "densenet201_isqrt_32k": 51_481_960,
    "vgg16": 138_357_544,
    "vgg16_bn": 138_365_992,
    "vgg16_bn_isqrt_32k": 170_479_144,
}
# 10^9 multiply-adds, counted as in the paper's Appendix III
GMACS = {
    "resnet18": 1.814,
    "resnet34": 3.664,
    "resnet50": 3.858,
    "resnet101": 7.570,
    "resnet152": 11.282,
    "resnet18_isqrt_32k": 3.229,
    "resnet34_isqrt_32k": 5.772,
    "resnet50_isqrt_32k": 6.311,
    "resnet101_isqrt_32k": 10.024,
    "resnet18_isqrt_8k": 3.108,
    "resnet34_isqrt_8k": 5.651,
    "resnet50_isqrt_8k": 6.191,
    "resnet101_isqrt_8k": 9.903,
}


def each_design(names: Iterable[str], *slow: str) -> list[Any]:
    """Names as parameters of a test. ResNets that repeat the blocks of another one, and `slow` ones, are long tests."""
    repeated = ("resnet34", "resnet101", "resnet152", *slow)
    return [pytest.param(name, marks=pytest.mark.long if name.startswith(repeated) else ()) for name in names]
