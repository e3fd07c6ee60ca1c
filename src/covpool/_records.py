"""Records: lines of JSON in a file, and the environment that a measurement was made in."""

import dataclasses
import json
import math
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from covpool._errors import CovpoolError
from covpool.ops import tf32_allowed

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R", bound="DataclassInstance")


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


def read_suite(path: Path, kind: type[R], suite: str) -> list[R]:
    """Read the lines of a suite as objects of a dataclass. Other lines, and entries without a field, are left out.

    Args:
        path: File of JSON lines.
        kind: The dataclass. Lines must have its fields without a default.
        suite: Entry "suite" of its lines.
    """
    fields = dataclasses.fields(kind)
    required = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING]
    found = [line for line in read_lines(path) if line.get("suite") == suite]
    for line in found:
        missing = [name for name in required if name not in line]
        if missing:
            raise CovpoolError(
                f"a result in {path} must have {', '.join(required)}; {str(line)[:80]} has no {missing[0]}: remove it"
            )
    return [kind(**{f.name: line[f.name] for f in fields if f.name in line}) for line in found]


def append_lines(path: Path, *lines: dict[str, Any]) -> None:
    """Append JSON lines to a file, which is created if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        if _is_cut(path):  # a half-written line must not spoil the next one
            file.write("\n")
        for line in lines:
            file.write(json.dumps(_plain(line), allow_nan=False) + "\n")


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


def _is_cut(path: Path) -> bool:
    """Whether a file ends inside of a line. A pipe, which cannot be read again, does not."""
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"


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
