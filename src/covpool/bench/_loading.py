"""Whether reading pictures keeps up with training: the same steps on pictures of a folder and on random tensors."""

import statistics
import time
from collections.abc import Iterable, Iterator
from itertools import islice, repeat

import torch
from torch import Tensor

from covpool.bench._measure import Timing, synchronize
from covpool.bench._record import Record
from covpool.bench._training_step import TrainingStep
from covpool.data import Augment, Cache, Data
from covpool.data.pipeline import TrainBatches
from covpool.data.sets import open_data

ROUNDS = 5  # epochs that are measured
TURN = 16  # steps of either kind after which it is the other's turn, so that a slow spell of the machine hits both


def measure_loading(
    backbone: str, root: str, device: torch.device, *, batch: int = 64, size: int = 128, cache: Cache = "gpu"
) -> Iterator[Record]:
    """Training steps (bf16 autocast on a GPU, channels_last, SGD) on epochs of pictures, and as many on random tensors.

    Args:
        backbone: a name `covpool.attach` takes; its head is iSQRT-COV.
        root: a folder with train/CLASS and test/CLASS.
        device: where.
        batch: images per step.
        size: of the input; random-resized crops and mirror images.
        cache: where decoded pictures are kept.
    """
    data = Data(root=root, cache=cache)
    images = open_data(data).train
    batches = TrainBatches(images, Augment(size=size, resize=(size,)), data, batch_size=batch, device=device)
    step = TrainingStep(backbone, "isqrt", len(images.classes), device)
    x = torch.randn(batch, 3, size, size, device=device)
    y = torch.randint(len(images.classes), (batch,), device=device)
    random, pictures = "random tensors", f"pictures, cache {cache}"
    spent: dict[str, list[float]] = {random: [], pictures: []}
    waited = []
    for epoch in range(ROUNDS + 1):
        seconds = dict.fromkeys(spent, 0.0)
        loaded = ((b.x, b.y) for b in batches.epoch(epoch))
        for start in range(0, batches.steps_per_epoch, TURN):
            steps = min(TURN, batches.steps_per_epoch - start)
            seconds[random] += _time(step, repeat((x, y), steps), device)
            seconds[pictures] += _time(step, islice(loaded, steps), device)
        if epoch:  # the first only warms up
            for name in spent:
                spent[name].append(1e3 * seconds[name] / batches.steps_per_epoch)
            waited.append(1e3 * batches.waited / batches.steps_per_epoch)
    timings = {name: Timing.of(values) for name, values in spent.items()}
    yardstick = timings[random].median
    for name, timing in timings.items():
        yield Record(
            suite="loading",
            name=f"{backbone} isqrt, {name}",
            shape=(batch, 3, size, size),
            passes="training step",
            median_ms=timing.median,
            p20_ms=timing.p20,
            p80_ms=timing.p80,
            ratio=yardstick / timing.median,
            extra={
                "images_per_s": 1e3 * batch / timing.median,
                "waited_ms": statistics.median(waited) if name == pictures else 0.0,
            },
        )


def _time(step: TrainingStep, batches: Iterable[tuple[Tensor, Tensor]], device: torch.device) -> float:
    synchronize(device)
    start = time.perf_counter()
    for x, y in batches:
        step(x, y)
    synchronize(device)
    return time.perf_counter() - start
