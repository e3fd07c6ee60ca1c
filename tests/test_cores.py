"""covpool._cores."""

import os

import pytest
import torch

from covpool._cores import one_thread, usable_cores


def test_cores_are_counted() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


def test_one_thread_and_then_as_many_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = [3]
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads[-1])
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    with one_thread():
        assert threads[-1] == 1
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert threads == [3, 1, 3, 1, 3]
