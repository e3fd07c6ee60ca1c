"""Whole training steps: a backbone with average pooling against the same backbone and maps with other heads."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn

import covpool
from covpool.bench._measure import busy_time, peak_memory, replay_time, time_interleaved
from covpool.bench._record import Record
from covpool.bench._training_step import TrainingStep

HEADS = ("avg", "isqrt", "mpn", "cov")


def measure_model(
    backbone: str,
    device: torch.device,
    seconds: float,
    *,
    batches: Sequence[int] = (128,),
    size: int = 224,
    heads: Sequence[str] = HEADS,
) -> Iterator[Record]:
    """Training steps of every head; several batches make a curve of eager steps, one is looked into closely.

    At one batch the steps are also compiled, and the parts of the iSQRT 32k head are timed alone on the same maps.
    """
    for batch in batches:
        yield from training_steps(backbone, batch, device, seconds, size=size, heads=heads)
    if len(batches) > 1:
        return
    yield from training_steps(backbone, batch, device, seconds, size=size, heads=heads, compiled=True)
    with torch.no_grad():
        network = covpool.attach(backbone, "avg", 1000).eval()
        maps = network.forward_features(torch.zeros(1, 3, size, size))
    assert isinstance(maps, Tensor)
    _, channels, side, _ = maps.shape
    yield from head_parts(channels, batch, side, device, seconds)


def training_steps(
    backbone: str,
    batch: int,
    device: torch.device,
    seconds: float,
    *,
    size: int = 224,
    heads: Sequence[str] = HEADS,
    compiled: bool = False,
) -> Iterator[Record]:
    """Time a training step (bf16 autocast on a GPU, channels_last, SGD) for each head, with the last stride removed.

    All heads in turn, in wall time; beside it the time of the whole step under CUDA-graph replay, and that in which the
    device is busy: the host's part varies.

    Args:
        backbone: a name `covpool.attach` takes.
        batch: images per step.
        device: where.
        seconds: about how long per head.
        size: of the images.
        heads: pools; the first is the yardstick of the ratio.
        compiled: compile the network.
    """
    steps: dict[str, Callable[[], object]] = {}
    for head in heads:
        step = TrainingStep(backbone, head, 1000, device, compiled=compiled)
        images = torch.randn(batch, 3, size, size, device=device).contiguous(memory_format=torch.channels_last)
        labels = torch.randint(1000, (batch,), device=device)
        steps[head] = partial(step, images, labels)
    timings = time_interleaved(steps, device, seconds * len(heads))
    yardstick = timings[heads[0]].median
    for head, timing in timings.items():
        yield Record(
            suite="steps, compiled" if compiled else "steps",
            name=f"{backbone} {head}",
            shape=(batch, 3, size, size),
            passes="training step",
            median_ms=timing.median,
            p20_ms=timing.p20,
            p80_ms=timing.p80,
            ratio=yardstick / timing.median,
            extra={
                "images_per_s": 1e3 * batch / timing.median,
                "graph_ms": replay_time(steps[head], device),
                "busy_ms": busy_time(steps[head], device),
                "peak_mib": peak_memory(steps[head], device),
            },
        )


def head_parts(channels: int, batch: int, positions: int, device: torch.device, seconds: float) -> Iterator[Record]:
    """What an iSQRT head of 256 channels (32k) costs, or of all where there are fewer, part by part, each timed alone.

    In wall time, and beside it the time in which the device is busy.

    Args:
        channels: of the backbone's last map.
        batch: images.
        positions: side of the map.
        device: where.
        seconds: about how long in all.
    """
    maps = torch.randn(batch, channels, positions, positions, device=device).to(torch.bfloat16)
    maps = maps.contiguous(memory_format=torch.channels_last)
    width = min(256, channels)
    reduction = covpool.create_pool("avg", channels, reduce_to=width).reduce[0].to(device)
    reduction = reduction.to(memory_format=torch.channels_last)
    pool = covpool.create_pool("isqrt", width).to(device)
    large, small = nn.Linear(pool.out_features, 1000, device=device), nn.Linear(channels, 1000, device=device)
    reduced = maps[:, :width].contiguous(memory_format=torch.channels_last)
    calls = {
        "average pooling": _autocast_call(lambda x: x.mean((2, 3)), maps),
        "reduction": _autocast_call(reduction, maps),
        "isqrt pool": _autocast_call(pool, reduced),
        "classifier": _autocast_call(large, torch.randn(batch, pool.out_features, device=device)),
        "classifier after average pooling": _autocast_call(small, torch.randn(batch, channels, device=device)),
        "optimizer, head": _optimizer_call(nn.Sequential(reduction, large)),
        "optimizer, head after average pooling": _optimizer_call(small),
    }
    for name, timing in time_interleaved(calls, device, seconds).items():
        yield Record(
            suite="head parts",
            name=name,
            shape=(batch, channels, positions, positions),
            passes="optimizer" if name.startswith("optimizer") else "forward+backward",
            median_ms=timing.median,
            p20_ms=timing.p20,
            p80_ms=timing.p80,
            extra={"busy_ms": busy_time(calls[name], device)},
        )


def _autocast_call(module: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], object]:
    x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()

    def call() -> None:
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            z = module(x)
        z.backward(torch.ones_like(z))

    return call


def _optimizer_call(module: nn.Module) -> Callable[[], object]:
    parameters = list(module.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.0, momentum=0.9, fused=parameters[0].is_cuda)

    def call() -> None:
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        optimizer.step()

    return call
