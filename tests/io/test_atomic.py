"""A file is whole or not there."""

import os
import stat
from pathlib import Path

import pytest

from covpool.io.atomic import replacing


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


def test_impossible_places(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"), replacing(tmp_path / "nowhere" / "file.txt"):
        pass
    with pytest.raises(IsADirectoryError, match="add a file name"), replacing(tmp_path):
        pass
