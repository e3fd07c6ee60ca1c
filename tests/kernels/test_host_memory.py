"""covpool.kernels.host_memory: what glibc is told, and when."""

import ctypes
import platform
from threading import Thread
from typing import Any

import pytest

from covpool.kernels import host_memory
from covpool.kernels.host_memory import KEPT, USUAL, freed_memory_kept


class Told:
    """Records what it is told in place of glibc."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def mallopt(self, parameter: int, value: int) -> None:
        self.calls.append((parameter, value))

    def malloc_trim(self, left: int) -> None:
        self.calls.append("trim")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    found = Told()
    monkeypatch.setattr(host_memory, "_glibc", lambda: found)
    return found


def test_memory_is_kept_until_the_last_context_ends(told: Told) -> None:
    with freed_memory_kept():
        assert told.calls == list(KEPT.items())
        with freed_memory_kept():
            pass
        assert told.calls == list(KEPT.items())
    assert told.calls == [*KEPT.items(), *USUAL.items(), "trim"]


def test_an_error_ends_the_context(told: Told) -> None:
    with pytest.raises(KeyError), freed_memory_kept():
        raise KeyError
    assert told.calls[-1] == "trim"


def test_contexts_of_several_threads_count_together(told: Told) -> None:
    def use() -> None:
        for _ in range(50):
            with freed_memory_kept():
                pass

    with freed_memory_kept():
        threads = [Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert told.calls == list(KEPT.items())
    assert host_memory._users.count == 0


def test_other_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    host_memory._glibc.cache_clear()
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert host_memory._glibc() is None
    with freed_memory_kept():
        assert host_memory._users.count == 0
    host_memory._glibc.cache_clear()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_glibc_takes_every_setting() -> None:
    libc = ctypes.CDLL(None)
    assert all(libc.mallopt(parameter, value) == 1 for parameter, value in (*KEPT.items(), *USUAL.items()))
