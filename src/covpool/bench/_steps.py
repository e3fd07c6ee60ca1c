"""Training steps of a backbone with average pooling, compared with the same backbone with other heads."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import covpool
from covpool._errors import CovpoolError
from covpool.bench._measure import busy_time, peak_memory, replay_time, saved_memory, time_interleaved
from covpool.bench._record import Record


def parse_head(text: str) -> tuple[str, dict[str, Any]]:
    """Split the text of a head into the name of its pool and its options, those of `covpool.attach` included.

    >>> parse_head("isqrt,reduce_to=128,iterations=3")
    ('isqrt', {'reduce_to': 128, 'iterations': 3})
    """
    name, *pairs = text.split(",")
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            raise CovpoolError(f"a head must be POOL or POOL,OPTION=VALUE,...; got {text!r}")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value  # a word
    return name, options


class TrainingStep:
    """A network with its optimizer. A call is one step on a batch; it does not wait for the device.

    Args:
        backbone: Name of a backbone for `covpool.attach`.
        pool: Name of a pool, with its options as in `parse_head`.
        classes: Number of classes.
        device: Device to train on.
        compiled: Compile the network.
    """

    def __init__(self, backbone: str, pool: str, classes: int, device: torch.device, *, compiled: bool = False) -> None:
        torch.manual_seed(0)
        name, options = parse_head(pool)
        model = (
            covpool.attach(backbone, name, classes, **options).train().to(device).to(memory_format=torch.channels_last)
        )
        self.model = model
        self.network: Any = torch.compile(model) if compiled else model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=device.type == "cuda")

    def __call__(self, x: Tensor, y: Tensor) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=x.is_cuda):
            loss = nn.functional.cross_entropy(self.network(x.contiguous(memory_format=torch.channels_last)), y)
        loss.backward()
        self.optimizer.step()


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
    """Measure the training steps of every head.

    Several batch sizes give a curve of eager steps. With a single batch size the steps are measured compiled as well,
    and the parts of the iSQRT 32k head one by one on the same feature maps.

    Args:
        backbone: Name of a backbone for `covpool.attach`.
        device: Device to measure on.
        seconds: Approximate time per head, in seconds.
        batches: Numbers of images per step.
        size: Height and width of the images.
        heads: Pools, with options as in `parse_head`; the first is the baseline of the ratio.
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
    """Measure a training step (bf16 autocast on a GPU, channels_last, SGD) of each head, with the last stride removed.

    The records hold the wall time and, because the time spent on the host varies, also the time of the step under
    CUDA-graph replay and the time in which the device is busy.

    Args:
        backbone: Name of a backbone for `covpool.attach`.
        batch: Number of images per step.
        device: Device to measure on.
        seconds: Approximate time per head, in seconds.
        size: Height and width of the images.
        heads: Pools, with options as in `parse_head`; the first is the baseline of the ratio.
        compiled: Compile the network.
    """
    steps: dict[str, Callable[[], object]] = {}
    kept: dict[str, float] = {}
    for head in heads:
        step = TrainingStep(backbone, head, 1000, device, compiled=compiled)
        images = torch.randn(batch, 3, size, size, device=device).contiguous(memory_format=torch.channels_last)
        labels = torch.randint(1000, (batch,), device=device)
        steps[head] = partial(step, images, labels)
        kept[head] = _pool_memory(step, images)
    timings = time_interleaved(steps, device, seconds * len(heads))
    for head, timing in timings.items():
        yield Record.of(
            timing,
            timings[heads[0]],
            suite="steps, compiled" if compiled else "steps",
            name=f"{backbone} {head}",
            shape=(batch, 3, size, size),
            passes="training step",
            extra={
                "images_per_s": 1e3 * batch / timing.median,
                "graph_ms": replay_time(steps[head], device),
                "busy_ms": busy_time(steps[head], device),
                "peak_mib": peak_memory(steps[head], device),
                "pool_mib": kept[head],
                "delta_mib": kept[head] - kept[heads[0]],
            },
        )


def _pool_memory(step: TrainingStep, images: Tensor) -> float:
    """MiB that the pool, with its reduction, keeps for the backward pass of a batch."""
    network = step.model
    with torch.autocast(images.device.type, dtype=torch.bfloat16, enabled=images.is_cuda):
        with torch.no_grad():
            features = network.forward_features(images)
        maps = features if isinstance(features, tuple) else (features,)
        inputs = tuple(one.detach().requires_grad_() for one in maps)
        return saved_memory(lambda: network.pool(*inputs))


def head_parts(channels: int, batch: int, side: int, device: torch.device, seconds: float) -> Iterator[Record]:
    """Measure the parts of an iSQRT head of 256 channels (32k), or fewer if the backbone has fewer, one by one.

    The records hold the wall time and the time in which the device is busy.

    Args:
        channels: Number of channels of the backbone's last feature map.
        batch: Number of images.
        side: Height and width of the feature map.
        device: Device to measure on.
        seconds: Approximate time in total, in seconds.
    """
    maps = torch.randn(batch, channels, side, side, device=device).to(torch.bfloat16)
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
        yield Record.of(
            timing,
            suite="head parts",
            name=name,
            shape=(batch, channels, side, side),
            passes="optimizer" if name.startswith("optimizer") else "forward+backward",
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
