"""Ctrl-C and SIGTERM: the current step is finished and the state saved."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from covpool._progress import ignore

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """The user stopped the training; it can be resumed."""


class StopRequests:
    """A context in which the first Ctrl-C or SIGTERM only sets `asked`; the second one ends the program at once.

    Args:
        on_ask: Called at the first one.
    """

    def __init__(self, on_ask: Callable[[], None] = ignore) -> None:
        self.asked = False
        self._on_ask = on_ask
        self._before: dict[signal.Signals, Any] = {}
        self._process = os.getpid()

    def __enter__(self) -> "StopRequests":
        if threading.current_thread() is threading.main_thread():  # only this thread may set handlers
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        self._restore()
        if os.getpid() != self._process:  # a worker process that loads images has nothing to save
            os.kill(os.getpid(), number)
        self._on_ask()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
