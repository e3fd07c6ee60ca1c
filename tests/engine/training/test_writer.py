"""Writing files beside the training."""

import threading

import pytest

from covpool.engine.training._writer import Writer


def test_functions_run_in_order_beside_the_caller() -> None:
    writer, done, may_end = Writer(), [], threading.Event()
    writer.submit(lambda: done.append((may_end.wait(5), 1)))
    assert done == []
    may_end.set()
    writer.submit(lambda: done.append((True, 2)))
    writer.close()
    assert done == [(True, 1), (True, 2)]


def test_an_error_is_raised_by_the_next_call() -> None:
    def fail() -> None:
        raise OSError("the disk is full")

    writer = Writer()
    writer.submit(fail)
    with pytest.raises(OSError, match="the disk is full"):
        writer.submit(fail)
    writer.submit(fail)
    with pytest.raises(OSError, match="the disk is full"):
        writer.close()
