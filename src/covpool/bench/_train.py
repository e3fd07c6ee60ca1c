"""Whole trainings with `covpool train`: the time of the command, its start and its images per second."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from covpool._errors import CovpoolError
from covpool._records import read_lines
from covpool.bench._measure import Timing
from covpool.bench._record import Record
from covpool.engine.training import LOG_FILE

TRAINED = ("isqrt", "avg")
POLL_SECONDS = 0.05


def measure_training(
    backbone: str,
    root: str,
    device: torch.device,
    *,
    batch: int = 64,
    size: int = 224,
    heads: Sequence[str] = TRAINED,
    epochs: int = 5,
    settings: Sequence[str] = (),
) -> Iterator[Record]:
    """Train with every head by the recipe `finetune`, each in a process of its own, and evaluate after every epoch.

    The times per step are those of the log, without the first epoch, in which the step is captured or compiled. The
    last stride of the backbone is removed for every head.

    Args:
        backbone: Name of a backbone for `covpool.attach`.
        root: Folder with train/CLASS and test/CLASS.
        device: Device to train on.
        batch: Number of images per step.
        size: Height and width of the input.
        heads: Names of pools; the first is the baseline of the ratio.
        epochs: Number of epochs, at least 2.
        settings: Further settings of the recipe, as on the command line.
    """
    if epochs < 2:
        raise CovpoolError(f"--epochs must be at least 2, because the first epoch is not timed; got {epochs}")
    baseline = None
    for head in heads:
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder, "run")
            command = _command(backbone, root, head, device, (batch, size, epochs))
            seconds, first = _time_command([*command, *settings, "--no-report", "--out", str(run)], run / LOG_FILE)
            timing, extra = _summarize(read_lines(run / LOG_FILE), batch)
        baseline = baseline or timing
        yield Record.of(
            timing,
            baseline,
            suite="train",
            name=f"{backbone} {head}",
            shape=(batch, 3, size, size),
            passes=f"training, {epochs} epochs",
            extra={"command_s": seconds, "first_log_s": first, **extra},
        )


def _command(backbone: str, root: str, head: str, device: torch.device, sizes: tuple[int, int, int]) -> list[str]:
    batch, size, epochs = sizes
    recipe = "finetune-avg" if head == "avg" else "finetune"
    on_gpu = ["data.cache=gpu", "devices.accelerator=gpu"]
    on_cpu = ["data.cache=ram", "devices.accelerator=cpu", "train.precision=32", "data.workers=0"]
    return [
        *(sys.executable, "-m", "covpool", "train", recipe, f"data.root={root}", f"model.backbone={backbone}"),
        *("init.pretrained=false", "model.keep_last_stride=false", "devices.devices=1"),
        *(f"augment.size={size}", f"train.batch_size={batch}", f"train.epochs={epochs}"),
        *([] if head == "avg" else [f"pool.name={head}"]),
        *(on_gpu if device.type == "cuda" else on_cpu),
    ]


def _time_command(command: list[str], log: Path) -> tuple[float, float | None]:
    """Seconds until a command ends, and until the first line of its log."""
    start, first = time.perf_counter(), None
    with tempfile.TemporaryFile("w+", errors="replace") as output:  # a pipe that nobody reads would fill up
        with subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
            while process.poll() is None:
                if first is None and log.is_file() and log.stat().st_size:
                    first = time.perf_counter() - start
                time.sleep(POLL_SECONDS)
            seconds = time.perf_counter() - start
        if process.returncode:
            output.seek(0)
            raise CovpoolError(f"the training failed: {output.read().strip() or process.returncode}")
    return seconds, first


def _summarize(events: list[dict[str, Any]], batch: int) -> tuple[Timing, dict[str, float]]:
    """Times per step after the first epoch in milliseconds, and what else the log tells."""
    steady = [event["images_per_s"] for event in events if event["event"] == "step" and event["epoch"] > 1]
    if not steady:
        raise CovpoolError("the training is too short to be timed: use more images, a smaller --batch or more --epochs")
    evaluations = [event["evaluation_seconds"] for event in events if event["event"] == "epoch" and event["epoch"] > 1]
    timing = Timing.of([1e3 * batch / speed for speed in steady])
    (end,) = [event for event in events if event["event"] == "end"]
    extra = {
        "images_per_s": 1e3 * batch / timing.median,
        "evaluation_s": sum(evaluations) / len(evaluations),
        "final_top1": end["top1"],
    }
    return timing, extra
