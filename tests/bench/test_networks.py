"""The cost of the network of a recipe."""

import pytest
import torch

from covpool.bench import measure_network, measure_rate, processes_for
from covpool.recipe import Recipe


def test_a_small_network() -> None:
    recipe = Recipe(model={"backbone": "test_resnet"}, pool={"name": "isqrt", "reduce_to": 8}, augment={"size": 32})
    found = measure_network(recipe, torch.device("cpu"), 0.01, batch=2)
    assert found.params > 0 and found.gmacs_paper > 0
    assert min(found.forward_ms, found.step_ms, found.ms) > 0
    assert found.hz == 1e3 / found.step_ms
    assert 0 < found.pool_percent < 100 and found.memory_mib is None


@pytest.mark.parametrize(("kind", "gpus", "processes"), [("cpu", 2, 1), ("cuda", 1, 1), ("cuda", 2, 2), ("cuda", 8, 2)])
def test_two_processes_where_there_are_two_gpus(
    kind: str, gpus: int, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert processes_for(torch.device(kind)) == processes


@pytest.mark.long
def test_the_rate_of_two_processes() -> None:
    recipe = Recipe(model={"backbone": "test_resnet"}, pool={"name": "isqrt", "reduce_to": 8}, augment={"size": 32})
    assert measure_rate(recipe, "cpu", 0.05, batch=4, processes=2) > 0
