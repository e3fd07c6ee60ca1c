"""Whether reading pictures keeps up with training: the same steps on pictures of a folder and on random tensors."""

import time
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from covpool.bench.measure import Timing, synchronize
from covpool.bench.record import Record
from covpool.bench.training_step import TrainingStep
from covpool.data.batches import TrainBatches
from covpool.data.options import Augment, Cache, Data
from covpool.data.sets import open_data

ROUNDS = 3  # epochs of either kind that are measured, in turn


def measure_loading(
    backbone: str, root: str, device: torch.device, *, batch: int = 64, size: int = 128, cache: Cache = "gpu"
) -> Iterator[Record]:
    """Training steps (bf16 autocast on a GPU, channels_last, SGD) over an epoch of random tensors and of pictures.

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
    epochs = {
        "random tensors": lambda epoch: ((x, y) for _ in range(batches.steps_per_epoch)),
        f"pictures, cache {cache}": lambda epoch: ((b.x, b.y) for b in batches.epoch(epoch)),
    }
    spent: dict[str, list[float]] = {name: [] for name in epochs}
    for epoch in range(ROUNDS + 1):
        for name, make in epochs.items():
            seconds = _time(step, make(epoch), device)
            if epoch:  # the first only warms up
                spent[name].append(1e3 * seconds / batches.steps_per_epoch)
    timings = {name: Timing.of(values) for name, values in spent.items()}
    yardstick = timings["random tensors"].median
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
            extra={"images_per_s": 1e3 * batch / timing.median},
        )


def _time(step: TrainingStep, batches: Iterable[tuple[Tensor, Tensor]], device: torch.device) -> float:
    synchronize(device)
    start = time.perf_counter()
    for x, y in batches:
        step(x, y)
    synchronize(device)
    return time.perf_counter() - start
