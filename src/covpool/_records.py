"""Records: lines of JSON in a file, and the environment that a measurement was made in."""

import json
import math
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from covpool._errors import CovpoolError
from covpool.ops import tf32_allowed


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read JSON lines; none if there is no file. A last line that is only half written is left out.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "log.jsonl")
    ...     _ = path.write_text('{"event": "step", "step": 10}\\n{"event": "st')
    ...     read_lines(path)
    [{'event': 'step', 'step': 10}]
    """
    if not path.is_file():
        return []
    *whole, last = path.read_text(errors="replace").split("\n")
    lines = []
    for number, line in enumerate(whole, 1):
        found = _parse(line)
        if found is None:
            raise CovpoolError(f"line {number} of {path} must be a JSON object; got {line[:40]!r}: remove that line")
        lines.append(found)
    unended = _parse(last)
    return lines if unended is None else [*lines, unended]


def append_lines(path: Path, *lines: dict[str, Any]) -> None:
    """Append JSON lines to a file, which is created if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            file.write(b"" if file.read() == b"\n" else b"\n")  # a half-written line must not spoil the next one
        for line in lines:
            file.write(json.dumps(_plain(line), allow_nan=False).encode() + b"\n")


def environment(device: torch.device, seed: int | None = None) -> dict[str, Any]:
    """Commit, versions, device and seed of this process, and the command that repeats it."""
    cuda = device.type == "cuda"
    return {
        "commit": _commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name(device) if cuda else f"{platform.machine()} CPU",
        "threads": None if cuda else torch.get_num_threads(),
        "matmul_precision": "high" if tf32_allowed() else "highest",
        **({} if seed is None else {"seed": seed}),
        "command": " ".join(["covpool", *sys.argv[1:]]),
    }


def _parse(line: str) -> dict[str, Any] | None:
    """The JSON object of a line; None for anything else."""
    try:
        found = json.loads(line)
    except json.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


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
        dirty = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", here], cwd=here, check=False).returncode
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit.decode().strip() + ("+" if dirty else "")
