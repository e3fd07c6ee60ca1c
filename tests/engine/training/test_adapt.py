"""covpool.engine.training._adapt: which modules of a network a training replaces."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import covpool
from covpool.engine.training._adapt import adapt
from covpool.recipe import Train

KINDS = ("BatchNorm2d", "FusedBatchNorm", "SyncBatchNorm", "Conv2d", "DepthwiseConv2d")


@pytest.mark.parametrize(
    ("settings", "device", "processes", "expected"),
    [
        ({}, "cuda", 2, {"BatchNorm2d": 52, "Conv2d": 52}),
        ({"channels_last": True}, "cpu", 1, {"BatchNorm2d": 52, "Conv2d": 52}),
        ({"channels_last": True}, "cuda", 1, {"FusedBatchNorm": 52, "Conv2d": 35, "DepthwiseConv2d": 17}),
        ({"channels_last": True, "kernels": False}, "cuda", 1, {"BatchNorm2d": 52, "Conv2d": 52}),
        ({"sync_norms": True}, "cuda", 1, {"BatchNorm2d": 52, "Conv2d": 52}),
        ({"sync_norms": True}, "cuda", 2, {"SyncBatchNorm": 52, "Conv2d": 52}),
    ],
)
def test_replaced_modules(settings: dict[str, Any], device: str, processes: int, expected: dict[str, int]) -> None:
    network = covpool.attach("torchvision/mobilenet_v2", "avg", 2)
    fabric: Any = SimpleNamespace(device=torch.device(device), world_size=processes)
    adapt(network, Train(**settings), fabric)
    kinds = Counter(type(module).__name__ for module in network.features.modules())
    assert {name: kinds[name] for name in KINDS if kinds[name]} == expected
    stem = next(p for p in network.parameters() if p.ndim == 4)
    assert stem.is_contiguous(memory_format=torch.channels_last) is settings.get("channels_last", False)
