"""Whether reading images keeps up: training and inference on the images of a folder, and on random tensors."""

import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, repeat

import torch
from torch import Tensor

from covpool.bench._measure import Timing, replay_time, synchronize
from covpool.bench._record import Record
from covpool.bench._steps import TrainingStep
from covpool.data import Cache, Data, Images, ResolvedAugment
from covpool.data.pipeline import EvalBatches, TrainBatches
from covpool.data.sets import open_data
from covpool.engine import autocast, compute_scores, infer
from covpool.recipe import Precision

EPOCHS = 5  # measured
TURN = 16  # steps before switching between images and tensors, so that a slow phase of the machine affects both


def measure_loading(
    backbone: str, root: str, device: torch.device, *, batch: int = 64, size: int = 128, cache: Cache = "gpu"
) -> Iterator[Record]:
    """Measure training steps (bf16 autocast on a GPU, channels_last, SGD) on images, and as many on random tensors.

    Then measure inference: features and scores of the images, and for comparison the features of one random tensor.

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
    augment = ResolvedAugment(size=size, resize=(size,))
    batches = TrainBatches(images, augment, data, batch_size=batch, device=device)
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
        if epoch:  # the first epoch is a warm-up
            for name in spent:
                spent[name].append(1e3 * seconds[name] / batches.steps_per_epoch)
            waited.append(1e3 * batches.waited / batches.steps_per_epoch)
    timings = {name: Timing.of(values) for name, values in spent.items()}
    for name, timing in timings.items():
        waits = statistics.median(waited) if name == loaded else 0.0
        yield _record(f"{backbone} isqrt, {name}", timing, timings[random], x, "training step", waited_ms=waits)
    yield from _measure_inference(backbone, step, images, augment, data, x)


def _measure_inference(
    backbone: str, step: TrainingStep, images: Images, augment: ResolvedAugment, data: Data, x: Tensor
) -> Iterator[Record]:
    """Measure features and scores of all images, and the features of one tensor, on a GPU by CUDA-graph replay."""
    device, network = x.device, step.model.eval()
    precision: Precision = "bf16" if device.type == "cuda" else "32"
    batches = EvalBatches(images, augment, data, batch_size=len(x), device=device)

    @torch.no_grad()
    def features_alone() -> None:
        with autocast(precision, device):
            network.forward_features(x)

    passes: dict[str, Callable[[], object]] = {
        "features": lambda: deque(infer(network, batches, network.forward_features, precision=precision), maxlen=0),
        "scores": lambda: compute_scores(network, batches, precision=precision),
    }
    features_alone()
    alone = replay_time(features_alone, device) or _seconds(features_alone, device) * 1e3
    baseline = Timing(alone, alone, alone)
    yield _record(f"{backbone}, features of random tensors", baseline, baseline, x, "inference")
    for name, run in passes.items():
        run()
        spent = [1e3 * _seconds(run, device) * len(x) / len(images) for _ in range(EPOCHS)]
        yield _record(f"{backbone}, {name} of images", Timing.of(spent), baseline, x, "inference")


def _record(name: str, timing: Timing, baseline: Timing, x: Tensor, passes: str, **extra: float) -> Record:
    return Record.of(
        timing,
        baseline,
        suite="loading",
        name=name,
        shape=tuple(x.shape),
        passes=passes,
        extra={"images_per_s": 1e3 * len(x) / timing.median, **extra},
    )


def _time(step: TrainingStep, batches: Iterable[tuple[Tensor, Tensor]], device: torch.device) -> float:
    def run() -> None:
        for x, y in batches:
            step(x, y)

    return _seconds(run, device)


def _seconds(run: Callable[[], object], device: torch.device) -> float:
    synchronize(device)
    start = time.perf_counter()
    run()
    synchronize(device)
    return time.perf_counter() - start
