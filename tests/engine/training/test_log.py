from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from covpool._records import read_lines
from covpool.engine.training._log import Log


def write(log: Log, *steps: int) -> None:
    for step in steps:
        log.write({"event": "step", "step": step, "loss": step / 10, "note": "text"})
    log.close()


def test_lines_after_the_resumed_step_are_removed(tmp_path: Path) -> None:
    write(Log(tmp_path), 2, 4, 6)
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"event": "step", "st')  # killed while writing
    write(Log(tmp_path, step=4), 6, 8)
    assert [line["step"] for line in read_lines(tmp_path / "log.jsonl")] == [2, 4, 6, 8]


def test_a_new_run_starts_a_new_log(tmp_path: Path) -> None:
    write(Log(tmp_path), 2)
    write(Log(tmp_path), 3)
    assert [line["step"] for line in read_lines(tmp_path / "log.jsonl")] == [3]


def test_the_end_is_written_once(tmp_path: Path) -> None:
    for _ in range(2):
        log = Log(tmp_path, step=9)
        log.write({"event": "end", "step": 9})
        log.close()
    assert len(read_lines(tmp_path / "log.jsonl")) == 1


def test_tensorboard_shows_each_step_once(tmp_path: Path) -> None:
    write(Log(tmp_path), 2, 4, 6)
    write(Log(tmp_path, step=4), 6, 8)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert events.Tags()["scalars"] == ["step/loss"]
    shown = [(event.step, round(event.value, 3)) for event in events.Scalars("step/loss")]
    assert shown == [(2, 0.2), (4, 0.4), (6, 0.6), (8, 0.8)]


@pytest.mark.parametrize("garbage", [b"hello", b"[1]", b"\xff\xfe", b""])
def test_a_line_that_is_not_json_is_named(tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / "log.jsonl").write_bytes(b'{"event": "step", "step": 2}\n' + garbage + b"\n")
    with pytest.raises(ValueError, match=r"line 2 of .*log.jsonl must be a JSON object; got .*: remove that line"):
        read_lines(tmp_path / "log.jsonl")


def test_a_line_that_cannot_be_written_names_the_file(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.path.unlink()
    log.path.mkdir()
    with pytest.raises(OSError, match=r"log.jsonl' cannot be written: Is a directory"):
        write(log, 2)


def test_the_log_is_written_without_tensorboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    log = Log(tmp_path)
    log.write({"event": "step", "step": 1, "loss": 0.5})
    log.close()
    assert read_lines(tmp_path / "log.jsonl") == [{"event": "step", "step": 1, "loss": 0.5}]
    assert "tensorboard is not installed" in caplog.text and not (tmp_path / "tensorboard").exists()
