"""Writing files beside the training."""

import threading

import pytest

from covpool.engine.training._writer import AT_ONCE, Writer


def test_functions_run_in_order_beside_the_caller() -> None:
    writer, done, may_end = Writer(), [], threading.Event()
    writer.submit(lambda: done.append((may_end.wait(5), 1)))
    assert done == []
    may_end.set()
    writer.submit(lambda: done.append((True, 2)))
    writer.close()
    assert done == [(True, 1), (True, 2)]


def test_an_error_ends_the_writing_and_is_raised_by_a_later_call() -> None:
    def fail() -> None:
        raise OSError("the disk is full")

    writer, done = Writer(), []
    writer.submit(fail)
    with pytest.raises(OSError, match="the disk is full"):
        writer.wait()
    writer.submit(lambda: done.append(1))
    writer.submit(lambda: done.append(2))
    writer.close()
    assert done == []


def test_few_functions_wait_at_once() -> None:
    writer, may_end, submitted = Writer(), threading.Event(), []

    def submit_many() -> None:
        for i in range(AT_ONCE + 1):
            writer.submit(may_end.wait)
            submitted.append(i)

    thread = threading.Thread(target=submit_many)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive() and len(submitted) == AT_ONCE
    may_end.set()
    thread.join(5)
    writer.close()
    assert len(submitted) == AT_ONCE + 1
