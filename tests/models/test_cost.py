import math
import re

import pytest
import torch
from torch import Tensor, nn

import covpool
from covpool.models._cost import cost
from models.tables import GMACS, each_design


@pytest.mark.parametrize("name", each_design(GMACS))
def test_the_accounting_of_the_paper(name: str) -> None:
    with torch.device("meta"):
        network = covpool.create_model(name)
    assert f"{cost(network).paper / 1e9:.3f}" == f"{GMACS[name]:.3f}"


def test_our_accounting_uses_the_real_stride_and_iterations() -> None:
    with torch.device("meta"):
        original, pooled = covpool.create_model("resnet50"), covpool.create_model("resnet50_isqrt_32k")
    assert f"{cost(original).total / 1e9:.3f}" == "4.089"
    found = cost(pooled)
    assert found.pooling == 196 * 256**2 + 12 * 196**3
    on_channels = found.layers + 196 * 256**2 + 12 * 256**3  # the iteration on 256 x 256 matrices, the usual way
    assert f"{on_channels / 1e9:.3f}" == "6.556"


def test_a_small_network_by_hand() -> None:
    network = covpool.Network(nn.Conv2d(3, 8, 3), covpool.create_pool("cov", 8, reduce_to=4), nn.Linear(10, 5))
    n = 14 * 14
    found = cost(network, (3, 16, 16))
    assert found.layers == n * 27 * 8 + n * 8 * 4 + 50
    assert found.pooling == n * 4**2
    assert found.paper == found.layers + 4 * n**2 + 4**2 * n + 6 * 4**3
    assert found.total == found.layers + found.pooling
    assert network(torch.randn(1, 3, 16, 16)).shape == (1, 5)  # counting does not change the network


def stated_cost(pool: covpool.Pool, n: int, c: int) -> float:
    """Evaluate the formula of `pool_info`, such as "n c^2 + about 10 c^3 (eigen-decomposition)"."""
    formula = covpool.pool_info(covpool.pools.pool_name(pool)).cost
    formula = re.sub(r"\([a-z][a-z -]{3,}\)|\babout\b", "", formula).replace("^", "**").strip()
    formula = re.sub(r"(?<=[\w)])\s+(?=[\w(])", " * ", formula)
    names = {**vars(pool), **getattr(pool, "options", {}), "n": n, "c": c, "min": min, "log": math.log2}
    names["N"] = names.get("iterations")
    return float(eval(formula, {"__builtins__": {}}, names))


@pytest.mark.parametrize("name", covpool.list_pools())
def test_the_cost_of_every_pool_is_its_stated_formula(name: str) -> None:
    pool = covpool.create_pool(name, 16)
    for n in (7, 49, 98):
        assert pool.multiply_adds(n, 16) == pytest.approx(stated_cost(pool, n, 16))
    assert 0 < pool.multiply_adds(49, 16) <= pool.multiply_adds(98, 16) < 1e9


def test_a_pool_that_is_not_registered_has_the_cost_of_its_class() -> None:
    class Mine(covpool.Pool):
        def _pool(self, x: Tensor) -> Tensor:
            return x.mean(1)

    found = cost(covpool.Network(nn.Conv2d(3, 8, 3), Mine(8), nn.Linear(8, 5)), (3, 16, 16))
    assert found.pooling == 14 * 14 * 8
    assert found.paper == found.layers
