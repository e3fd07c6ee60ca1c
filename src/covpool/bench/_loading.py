"""Whether reading images keeps up with training: the same steps on images of a folder and on random tensors."""

import statistics
import time
from collections.abc import Iterable, Iterator
from itertools import islice, repeat

import torch
from torch import Tensor

from covpool.bench._measure import Timing, synchronize
from covpool.bench._record import Record
from covpool.bench._steps import TrainingStep
from covpool.data import Cache, Data, ResolvedAugment
from covpool.data.pipeline import TrainBatches
from covpool.data.sets import open_data

EPOCHS = 5  # measured
TURN = 16  # steps before switching between images and tensors, so that a slow phase of the machine affects both


def measure_loading(
    backbone: str, root: str, device: torch.device, *, batch: int = 64, size: int = 128, cache: Cache = "gpu"
) -> Iterator[Record]:
    """Measure training steps (bf16 autocast on a GPU, channels_last, SGD) on images, and as many on random tensors.

    Args:
        backbone: Name of a backbone for `covpool.attach`; its pool is iSQRT-COV.
        root: Folder with train/CLASS and test/CLASS.
        device: Device to measure on.
        batch: Number of images per step.
        size: Height and width of the input; the images are random-resized crops, half of them flipped.
        cache: Where decoded images are cached.
    """
    data = Data(root=root, cache=cache)
    images = open_data(data).train
    batches = TrainBatches(images, ResolvedAugment(size=size, resize=(size,)), data, batch_size=batch, device=device)
    step = TrainingStep(backbone, "isqrt", len(images.classes), device)
    x = torch.randn(batch, 3, size, size, device=device)
    y = torch.randint(len(images.classes), (batch,), device=device)
    random, loaded = "random tensors", f"images, cache {cache}"
    spent: dict[str, list[float]] = {random: [], loaded: []}
    waited = []
    for epoch in range(EPOCHS + 1):
        seconds = dict.fromkeys(spent, 0.0)
        pairs = ((b.x, b.y) for b in batches.epoch(epoch))
        for start in range(0, batches.steps_per_epoch, TURN):
            steps = min(TURN, batches.steps_per_epoch - start)
            seconds[random] += _time(step, repeat((x, y), steps), device)
            seconds[loaded] += _time(step, islice(pairs, steps), device)
        if epoch:  # the first epoch is for warming up
            for name in spent:
                spent[name].append(1e3 * seconds[name] / batches.steps_per_epoch)
            waited.append(1e3 * batches.waited / batches.steps_per_epoch)
    timings = {name: Timing.of(values) for name, values in spent.items()}
    for name, timing in timings.items():
        yield Record.of(
            timing,
            timings[random],
            suite="loading",
            name=f"{backbone} isqrt, {name}",
            shape=(batch, 3, size, size),
            passes="training step",
            extra={
                "images_per_s": 1e3 * batch / timing.median,
                "waited_ms": statistics.median(waited) if name == loaded else 0.0,
            },
        )


def _time(step: TrainingStep, batches: Iterable[tuple[Tensor, Tensor]], device: torch.device) -> float:
    synchronize(device)
    start = time.perf_counter()
    for x, y in batches:
        step(x, y)
    synchronize(device)
    return time.perf_counter() - start
