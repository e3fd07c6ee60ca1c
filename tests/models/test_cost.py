import pytest
import torch
from torch import nn

import covpool
from covpool.models._cost import cost, stated_cost
from models.tables import GMACS


@pytest.mark.parametrize("name", GMACS)
def test_the_paper_s_accounting(name: str) -> None:
    with torch.device("meta"):
        network = covpool.create_model(name)
    assert f"{cost(network).paper / 1e9:.3f}" == f"{GMACS[name]:.3f}"


def test_ours_counts_the_stride_where_it_is_and_the_iterations_that_run() -> None:
    with torch.device("meta"):
        original, pooled = covpool.create_model("resnet50"), covpool.create_model("resnet50_isqrt_32k")
    assert f"{cost(original).total / 1e9:.3f}" == "4.089"
    found = cost(pooled)
    assert found.pooling == 196 * 256**2 + 12 * 196**3
    on_channels = found.layers + 196 * 256**2 + 12 * 256**3  # the iteration on 256 x 256 matrices, as others run it
    assert f"{on_channels / 1e9:.3f}" == "6.556"


def test_a_small_network_by_hand() -> None:
    network = covpool.Network(nn.Conv2d(3, 8, 3), covpool.create_pool("cov", 8, reduce_to=4), nn.Linear(10, 5))
    n = 14 * 14
    found = cost(network, (3, 16, 16))
    assert found.layers == n * 27 * 8 + n * 8 * 4 + 50
    assert found.pooling == n * 4**2
    assert found.paper == found.layers + 4 * n**2 + 4**2 * n + 6 * 4**3
    assert found.total == found.layers + found.pooling
    assert network(torch.randn(1, 3, 16, 16)).shape == (1, 5)  # counting leaves the network as it is


def test_a_formula_that_cannot_be_worked_out_is_named() -> None:
    about = {"title": "", "paper": "", "order": "1", "formula": "", "size": "c", "cost": "n c K"}

    @covpool.register("odd", **about)
    class Odd(covpool.Pool):
        def __init__(self, in_features: int) -> None:
            super().__init__(in_features, lambda c: c)

    try:
        with pytest.raises(ValueError, match="'odd' must be a formula in n, c and options"):
            stated_cost(covpool.create_pool("odd", 8), n=4, c=8)
    finally:
        covpool.unregister("odd")


@pytest.mark.parametrize("name", covpool.list_pools())
def test_the_stated_cost_of_every_pool_is_a_formula(name: str) -> None:
    pool = covpool.create_pool(name, 16)
    assert 0 < stated_cost(pool, n=49, c=16) <= stated_cost(pool, n=98, c=16) < 1e9
