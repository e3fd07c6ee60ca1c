"""Start-up time: what `covpool --help` and importing covpool cost, compared with importing torch."""

import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import torch

from covpool.bench._measure import time_interleaved
from covpool.bench._record import Record

COMMANDS = {
    "import torch": ("-c", "import torch"),
    "from covpool import create_pool": ("-c", "from covpool import create_pool"),
    "import covpool": ("-c", "import covpool"),
    "covpool --help": ("-m", "covpool", "--help"),
}


def startup(device: torch.device, seconds: float, seed: int) -> Iterator[Record]:
    """Measure the wall time of new Python processes, interleaved. The seed has no effect."""
    start = partial(subprocess.run, check=True, capture_output=True)
    calls = {name: partial(start, [sys.executable, *arguments]) for name, arguments in COMMANDS.items()}
    timings = time_interleaved(calls, torch.device("cpu"), seconds)
    for name, timing in timings.items():
        yield Record.of(
            timing,
            timings["import torch"],
            suite="startup",
            name=name,
            shape=(),
            passes="new process",
        )
