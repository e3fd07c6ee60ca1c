"""Whole trainings, timed from outside."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from covpool._errors import CovpoolError
from covpool.bench import _train
from trees import make_folder

CPU = torch.device("cpu")


def events(epochs: int = 3) -> list[dict[str, Any]]:
    """A log with steps of 100 images per second, and ten times as slow in the first epoch."""
    found: list[dict[str, Any]] = []
    for epoch in range(1, epochs + 1):
        found += 2 * [{"event": "step", "epoch": epoch, "images_per_s": 10.0 if epoch == 1 else 100.0}]
        found.append({"event": "epoch", "epoch": epoch, "evaluation_seconds": float(epoch)})
    return [*found, {"event": "end", "top1": 0.5}]


def test_the_first_epoch_is_not_timed() -> None:
    timing, extra = _train._summarize(events(), batch=4)
    assert timing.median == pytest.approx(40.0)
    assert extra == {"images_per_s": pytest.approx(100.0), "evaluation_s": 2.5, "final_top1": 0.5}
    with pytest.raises(CovpoolError, match="too short to be timed"):
        _train._summarize(events(1), batch=4)


def test_a_command_is_timed_until_its_first_line_and_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = f"import time; time.sleep(0.1); open({str(log)!r}, 'w').write('x'); time.sleep(0.3)"
    seconds, first = _train._time_command([sys.executable, "-c", program], log)
    assert first is not None and 0.1 < first < seconds - 0.1
    with pytest.raises(CovpoolError, match="the training failed: no such recipe"):
        _train._time_command([sys.executable, "-c", "raise SystemExit('no such recipe')"], log)


def test_a_command_may_print_more_than_a_pipe_holds(tmp_path: Path) -> None:
    """The output of a command that nobody reads fills its pipe after 64 KiB."""
    program = "import signal, sys; signal.alarm(20); print('x' * 200_000); sys.exit('the last line')"
    with pytest.raises(CovpoolError, match=r"the last line$"):
        _train._time_command([sys.executable, "-c", program], tmp_path / "log")


def test_heads_are_compared_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(_train, "_time_command", lambda command, log: commands.append(command) or (9.0, 2.0))
    monkeypatch.setattr(_train, "read_lines", lambda path: events())
    records = list(_train.measure_training("test_resnet", "images", CPU, epochs=3, settings=["seed=1"]))
    assert [record.name for record in records] == ["test_resnet isqrt", "test_resnet avg"]
    assert [record.ratio for record in records] == [1.0, 1.0]
    assert records[0].extra["command_s"] == 9.0 and records[0].extra["first_log_s"] == 2.0
    assert all("seed=1" in command and "train.epochs=3" in command for command in commands)
    with pytest.raises(CovpoolError, match="--epochs must be at least 2"):
        next(_train.measure_training("test_resnet", "images", CPU, epochs=1))


@pytest.mark.long
def test_a_folder_is_trained_on(tmp_path: Path) -> None:
    root = make_folder(tmp_path, classes=2, per_class=8)
    settings = ["train.log_every=1", "init.reduction=random", "pool.reduce_to=8"]
    (record,) = _train.measure_training(
        "test_resnet", str(root), CPU, batch=4, size=32, heads=["isqrt"], epochs=2, settings=settings
    )
    assert record.extra["command_s"] > record.extra["first_log_s"] > 0
