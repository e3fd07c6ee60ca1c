"""A file is whole or not there."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from covpool import CovpoolError
from covpool.io._atomic import remove_leftovers, replacing


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_the_new_file_takes_the_place_of_the_old(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")
    with replacing(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
        assert partial.parent == path.parent and partial.suffix == path.suffix
    assert path.read_text() == "new"
    assert names(tmp_path) == ["file.txt"]


@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failure_leaves_what_was_there(tmp_path: Path, failure: BaseException) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")

    def write_half() -> None:
        with replacing(path) as partial:
            partial.write_text("ne")
            raise failure

    with pytest.raises(type(failure)):
        write_half()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


@pytest.fixture
def full_disk() -> Iterator[None]:
    """No file may grow beyond 64 KiB."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("library", ["torch", "safetensors", "python"])
@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_is_named_whoever_writes(tmp_path: Path, library: str) -> None:
    large = torch.zeros(1 << 18)
    path = tmp_path / "file.pt"
    path.write_text("old")

    def write() -> None:
        with replacing(path) as partial:
            if library == "torch":
                torch.save({"large": large}, partial)
            elif library == "safetensors":
                save_file({"large": large}, partial)
            else:
                partial.write_bytes(bytes(1 << 20))

    with pytest.raises(OSError, match=r"file.pt' cannot be written: File too large. Free some space"):
        write()
    assert path.read_text() == "old" and names(tmp_path) == ["file.pt"]


def test_a_full_disk_is_recognized_in_the_error_of_safetensors(tmp_path: Path) -> None:
    """It writes under a name of its own and removes that: nothing is left to ask the disk about."""
    with pytest.raises(OSError, match=r"file' cannot be written: No space left"), replacing(tmp_path / "file"):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


def test_an_error_while_writing_keeps_its_message(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="mistake"), replacing(tmp_path / "file.txt"):
        raise RuntimeError("mistake")


@pytest.mark.usefixtures("full_disk")
def test_a_mistake_keeps_its_message_on_a_full_disk(tmp_path: Path) -> None:
    with pytest.raises(CovpoolError, match=r"^a mistake$"), replacing(tmp_path / "file.txt"):
        raise CovpoolError("a mistake")


def test_data_is_on_the_disk_before_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (order.append("sync"), sync(descriptor))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append("rename"), replace(a, b))[1])
    with replacing(tmp_path / "file.txt") as partial:
        partial.write_text("new")
    assert order[:2] == ["sync", "rename"]


@pytest.mark.skipif(os.name != "posix", reason="permissions of other systems")
def test_the_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    with replacing(tmp_path / "file") as partial:
        partial.touch()
        partial.chmod(0o600)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == stat.S_IMODE((tmp_path / "usual").stat().st_mode)


def test_leftovers_of_one_file_are_removed(tmp_path: Path) -> None:
    kept = [".other-12345678.pt", ".state-12345678.txt", ".state-mine.pt", "state.pt"]
    for name in (".state-0123abcd.pt", *kept):
        (tmp_path / name).touch()
    remove_leftovers(tmp_path / "state.pt")
    assert names(tmp_path) == kept


def test_impossible_places(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"), replacing(tmp_path / "nowhere" / "file.txt"):
        pass
    with pytest.raises(IsADirectoryError, match="add a file name"), replacing(tmp_path):
        pass
