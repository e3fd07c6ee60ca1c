"""A run folder has one owner, and a lock never outlives its process."""

import errno
import os
import signal
import time
from pathlib import Path

import pytest

from covpool.engine.training._run_lock import LOCK_FILE, RunLock, fcntl


def start_owner(run: Path) -> int:
    """Fork a process that takes the lock and forks a worker; both live on. Returns its number, also of its group."""
    reading, writing = os.pipe()
    owner = os.fork()
    if owner == 0:
        os.setsid()
        RunLock(run).take()
        if os.fork():
            os.write(writing, b"taken")
        time.sleep(60)
        os._exit(0)
    assert os.read(reading, 5) == b"taken"
    os.close(reading)
    os.close(writing)
    return owner


def test_a_second_owner_is_refused_with_the_name_of_the_first(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with RunLock(run):
        with pytest.raises(ValueError, match=rf"run is in use by process {os.getpid()} on .*, since \d{{4}}-.*--out"):
            RunLock(run).take()
        (run / "recipe.toml").touch()
    with RunLock(run):
        pass
    assert [path.name for path in run.iterdir()] == ["recipe.toml"]


def test_folders_that_stay_empty_are_removed(tmp_path: Path) -> None:
    with RunLock(tmp_path / "runs" / "a" / "b"):
        assert (tmp_path / "runs" / "a" / "b" / LOCK_FILE).is_file()
    assert not list(tmp_path.iterdir())
    (tmp_path / "mine").mkdir()
    with RunLock(tmp_path / "mine"):
        pass
    assert (tmp_path / "mine").is_dir(), "only folders that the lock created are removed"


def test_a_kill_frees_the_folder_though_a_worker_lives_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    owner = start_owner(run)
    try:
        with pytest.raises(ValueError, match=f"in use by process {owner} on"):
            RunLock(run).take()
        os.kill(owner, signal.SIGKILL)
        os.waitpid(owner, 0)
        with RunLock(run):
            os.killpg(owner, 0)  # the worker is alive
    finally:
        os.killpg(owner, signal.SIGKILL)


def test_a_lock_file_that_was_removed_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between opening and locking, the last owner removes the file: a lock on it would hold nothing."""
    flock, removed = fcntl.flock, []

    def remove_first(descriptor: int, kind: int) -> None:
        if not removed:
            removed.append(True)
            (tmp_path / LOCK_FILE).unlink()
        flock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with RunLock(tmp_path), pytest.raises(ValueError, match="in use"):
        RunLock(tmp_path).take()


def test_a_file_system_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_locks(descriptor: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with RunLock(tmp_path):
        assert "file system without locks" in caplog.text


def test_an_unreadable_owner_is_another_training(tmp_path: Path) -> None:
    with RunLock(tmp_path):
        (tmp_path / LOCK_FILE).write_text("no JSON")
        with pytest.raises(ValueError, match="in use by another training"):
            RunLock(tmp_path).take()


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="the system does not list open files")
def test_a_refusal_leaves_no_file_open(tmp_path: Path) -> None:
    with RunLock(tmp_path):
        before = len(os.listdir("/dev/fd"))
        for _ in range(3):
            with pytest.raises(ValueError, match="in use"):
                RunLock(tmp_path).take()
        assert len(os.listdir("/dev/fd")) == before
