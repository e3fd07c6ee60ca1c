"""What one measurement says of itself: enough to reproduce it and to judge it."""

import json
import math
import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from covpool.ops import tf32_allowed


@dataclass
class Record:
    """One candidate at one shape.

    Attributes:
        suite, name: what was measured.
        shape: (b, n, c), or the model's input.
        passes: "forward" or "forward+backward".
        median_ms, p20_ms, p80_ms: wall time per call.
        ratio: median of the suite's yardstick over this median, measured in the same run; more than 1 is faster.
        value_error, gradient_error: relative to float64.
        extra: what else was measured (device time under graph replay, memory, launches, ...).
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


def environment(device: torch.device, seed: int) -> dict[str, Any]:
    """Commit, versions, device and seed of this run, and the command that repeats it."""
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


def write_records(path: Path, records: list[Record], environment: dict[str, Any]) -> None:
    """Append records to a file of JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for record in records:
            file.write(json.dumps(_plain({**asdict(record), **environment}), allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    """The same for JSON, which knows no NaN and no infinity: they stand as words."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _commit() -> str:
    """The commit of the source tree this runs from, with + for uncommitted changes.

    A copy of the tree without its history says it in COVPOOL_COMMIT; else it is "unknown".
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
