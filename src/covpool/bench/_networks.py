"""The cost of the network of a recipe: parameters, operations, time and memory."""

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn

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
    network = _build(recipe).to(device)
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


def processes_for(device: torch.device) -> int:
    """Number of processes to measure the speed of training in: 2 as in the paper if there are two GPUs, else 1."""
    return 2 if device.type == "cuda" and torch.cuda.device_count() >= 2 else 1


def measure_rate(recipe: Recipe, kind: str, seconds: float, *, batch: int, processes: int) -> float:
    """Measure the images per second of training steps that are spread over processes, each on a device of its own.

    Args:
        recipe: Recipe; its network, pool and image size count.
        kind: "cuda" or "cpu".
        seconds: Approximate time, in seconds.
        batch: Images per batch, of all processes together.
        processes: Number of processes.
    """
    with TemporaryDirectory() as folder:
        arguments = (processes, recipe, kind, seconds, batch // processes, folder)
        spawn(_measure_process, arguments, nprocs=processes)
        return float(Path(folder, "rate").read_text())


def _measure_process(
    rank: int, processes: int, recipe: Recipe, kind: str, seconds: float, batch: int, folder: str
) -> None:
    device = torch.device(kind, rank) if kind == "cuda" else torch.device("cpu")
    backend, meeting = "nccl" if kind == "cuda" else "gloo", f"file://{folder}/store"
    torch.distributed.init_process_group(backend, init_method=meeting, rank=rank, world_size=processes)
    network = nn.parallel.DistributedDataParallel(_build(recipe).to(device).train())
    side = recipe.augment.size or 224
    x = torch.randn(batch, 3, side, side, device=device)
    for _ in range(3):
        _step(network, x)
    one = torch.tensor([_time_steps(network, x, 1)], device=device)
    torch.distributed.broadcast(one, 0)  # all processes must do the same number of steps
    steps = max(3, int(seconds / float(one)))
    elapsed = _time_steps(network, x, steps)
    if rank == 0:
        Path(folder, "rate").write_text(str(steps * batch * processes / elapsed))
    torch.distributed.destroy_process_group()


def _time_steps(network: nn.Module, x: Tensor, steps: int) -> float:
    """Seconds of some training steps, until the device has finished them."""
    start = time.perf_counter()
    for _ in range(steps):
        _step(network, x)
    if x.is_cuda:
        torch.cuda.synchronize(x.device)
    return time.perf_counter() - start


def _build(recipe: Recipe) -> Network:
    fresh = recipe.changed(init={"pretrained": False, "weights": "", "pool_from_data": False})
    torch.manual_seed(0)
    return build_network(fresh, [str(i) for i in range(CLASSES)]).network


def _step(network: nn.Module, x: Tensor) -> None:
    network.zero_grad(set_to_none=True)
    targets = torch.zeros(len(x), dtype=torch.long, device=x.device)
    nn.functional.cross_entropy(network(x), targets).backward()


@torch.inference_mode()
def _evaluate(network: Network, x: Tensor) -> Tensor:
    scores: Tensor = network(x)
    return scores
