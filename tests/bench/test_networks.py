"""The cost of the network of a recipe."""

import torch

from covpool.bench import measure_network
from covpool.recipe import Recipe


def test_a_small_network() -> None:
    recipe = Recipe(model={"backbone": "test_resnet"}, pool={"name": "isqrt", "reduce_to": 8}, augment={"size": 32})
    found = measure_network(recipe, torch.device("cpu"), 0.01, batch=2)
    assert found.params > 0 and found.gmacs_paper > 0
    assert min(found.forward_ms, found.step_ms, found.ms) > 0
    assert found.hz == 1e3 / found.step_ms
    assert 0 < found.pool_percent < 100 and found.memory_mib is None
