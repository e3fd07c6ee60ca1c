import os
import signal

import pytest

from covpool.engine.training._interrupt import StopRequests


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_only_asks(number: signal.Signals) -> None:
    told, before = [], signal.getsignal(number)
    with StopRequests(lambda: told.append(number)) as requests:
        assert not requests.asked
        os.kill(os.getpid(), number)
        assert requests.asked and told == [number]
        assert signal.getsignal(number) is before  # so that the second one ends the program
    assert signal.getsignal(number) is before


def test_no_signal() -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopRequests() as requests:
        pass
    assert not requests.asked and signal.getsignal(signal.SIGINT) is before


def test_worker_processes_end_as_usual() -> None:
    """Processes that load images inherit the handlers, and must still end."""
    with StopRequests():
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(7)
        _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGTERM
