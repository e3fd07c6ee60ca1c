"""The record of one measurement, with everything needed to reproduce it."""

import json
import math
import os
import platform
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch

from covpool.bench._measure import Timing
from covpool.ops import tf32_allowed


@dataclass
class Record:
    """The measurement of one candidate at one shape.

    Attributes:
        suite: Suite of the measurement.
        name: Candidate that was measured.
        shape: Shape of the features (b, n, c) or of the model's input.
        passes: What one call does, such as "forward+backward".
        median_ms: Median wall time per call.
        p20_ms: 20th percentile of the wall time.
        p80_ms: 80th percentile of the wall time.
        ratio: Median time of the suite's baseline over this median, measured in the same run; above 1 is faster.
        value_error: Relative error of the value against float64.
        gradient_error: Relative error of the gradient against float64.
        extra: Further measurements: device time under graph replay, memory, launches and others.
    """

    suite: str
    name: str
    shape: tuple[int, ...]
    passes: str
    median_ms: float
    p20_ms: float
    p80_ms: float
    ratio: float | None = None
    value_error: float | None = None
    gradient_error: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, timing: Timing, baseline: Timing | None = None, **about: Any) -> Self:
        """Make a record from timings.

        Args:
            timing: Timing of the candidate.
            baseline: Timing of the suite's baseline.
            about: The other attributes.
        """
        ratio = None if baseline is None else baseline.median / timing.median
        return cls(median_ms=timing.median, p20_ms=timing.p20, p80_ms=timing.p80, ratio=ratio, **about)


def environment(device: torch.device, seed: int) -> dict[str, Any]:
    """Commit, versions, device and seed of this process, and the command that repeats it."""
    cuda = device.type == "cuda"
    return {
        "commit": _commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name(device) if cuda else f"{platform.machine()} CPU",
        "threads": None if cuda else torch.get_num_threads(),
        "matmul_precision": "high" if tf32_allowed() else "highest",
        "seed": seed,
        "command": " ".join(["covpool", *sys.argv[1:]]),
    }


def append_lines(path: Path, *lines: dict[str, Any]) -> None:
    """Append JSON lines to a file, which is created if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for line in lines:
            file.write(json.dumps(_plain(line), allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, by their names."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _commit() -> str:
    """The commit of the source tree that is running, with + for uncommitted changes.

    For a copy of the tree without its history, set COVPOOL_COMMIT; otherwise the commit is "unknown".
    """
    if stated := os.environ.get("COVPOOL_COMMIT"):
        return stated
    here = Path(__file__).parent
    try:
        commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=here, stderr=subprocess.DEVNULL)
        dirty = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", here.parent], cwd=here, check=False).returncode
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit.decode().strip() + ("+" if dirty else "")
