"""The cost of the network of a recipe: parameters, operations, time and memory."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from covpool.bench._measure import peak_memory, saved_memory, time_interleaved
from covpool.engine.training import build_network
from covpool.models import Network, cost
from covpool.recipe import Recipe

CLASSES = 1000


@dataclass(frozen=True)
class NetworkCost:
    """The cost of a network, for one image unless said otherwise.

    Attributes:
        params: Millions of parameters.
        gmacs_paper: 10^9 multiply-adds, counted as in the paper.
        forward_ms: Time of a forward pass in training.
        step_ms: Time of a forward and backward pass.
        ms: Time of a forward pass in evaluation.
        hz: Images per second in forward and backward passes.
        memory_mib: Peak memory of a forward pass of the batch on a GPU; None on a CPU.
        pool_mib: Memory that the pool keeps for the backward pass of the batch.
        pool_percent: The same as a percentage of what the whole network keeps.
    """

    params: float
    gmacs_paper: float
    forward_ms: float
    step_ms: float
    ms: float
    hz: float
    memory_mib: float | None
    pool_mib: float
    pool_percent: float


def measure_network(recipe: Recipe, device: torch.device, seconds: float, *, batch: int) -> NetworkCost:
    """Measure the network of a recipe with random weights, in float32.

    Args:
        recipe: Recipe; its network, pool and image size count.
        device: Device to measure on.
        seconds: Approximate time in total, in seconds.
        batch: Images per batch.
    """
    fresh = recipe.changed(init={"pretrained": False, "weights": "", "pool_from_data": False})
    torch.manual_seed(0)
    network = build_network(fresh, [str(i) for i in range(CLASSES)]).network.to(device)
    side = recipe.augment.size or 224
    x = torch.randn(batch, 3, side, side, device=device)
    calls = {
        "forward": lambda: network.train()(x),
        "step": lambda: _step(network.train(), x),
        "evaluate": lambda: _evaluate(network.eval(), x),
    }
    times = {name: timing.median / batch for name, timing in time_interleaved(calls, device, seconds).items()}
    whole = saved_memory(lambda: network.train()(x))
    features = network.forward_features(x)
    assert isinstance(features, Tensor)
    maps = features.detach().requires_grad_()
    pool = saved_memory(lambda: network.forward_pool(maps))
    return NetworkCost(
        params=sum(p.numel() for p in network.parameters()) / 1e6,
        gmacs_paper=cost(network.eval(), (3, side, side)).paper / 1e9,
        forward_ms=times["forward"],
        step_ms=times["step"],
        ms=times["evaluate"],
        hz=1e3 / times["step"],
        memory_mib=peak_memory(calls["evaluate"], device),
        pool_mib=pool,
        pool_percent=100 * pool / whole,
    )


def _step(network: Network, x: Tensor) -> None:
    network.zero_grad(set_to_none=True)
    targets = torch.zeros(len(x), dtype=torch.long, device=x.device)
    nn.functional.cross_entropy(network(x), targets).backward()


@torch.inference_mode()
def _evaluate(network: Network, x: Tensor) -> Tensor:
    scores: Tensor = network(x)
    return scores
