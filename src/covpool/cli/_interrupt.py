"""Ctrl-C on the command line: the first one stops a command, the next one ends the program at once."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, NoReturn

INTERRUPTED = 130  # exit code; shells report it after Ctrl-C
IMPORT_SYSTEM = "<frozen importlib._bootstrap>"  # the name of its frames
SHOW_CURSOR = "\x1b[?25h"  # progress bars hide it


class Interrupts:
    """The handler of Ctrl-C.

    Attributes:
        asked: Whether the user has asked to stop, so that the next Ctrl-C ends the program at once. Files are written
            completely or not at all, so nothing is damaged.
    """

    def __init__(self) -> None:
        self.asked = False
        self._process = os.getpid()

    def install(self) -> None:
        """Handle Ctrl-C in this process from here on, unless the program was told to ignore it."""
        self.asked, self._process = False, os.getpid()
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.asked or _is_importing(frame):
            self.end()
        self.asked = True
        raise KeyboardInterrupt

    def watching(self, on_event: Callable[[Mapping[str, Any]], None]) -> Callable[[Mapping[str, Any]], None]:
        """Wrap the receiver of a training's events: the training itself takes the first Ctrl-C, and saves."""

        def watch(event: Mapping[str, Any]) -> None:
            self.asked = self.asked or event["event"] == "stopping"
            on_event(event)

        return watch

    def end(self) -> NoReturn:
        """End the program without waiting for threads, workers or libraries."""
        if os.getpid() == self._process:
            cursor = SHOW_CURSOR if sys.stderr.isatty() else ""
            os.write(2, f"{cursor}\nstopped\n".encode())
            for worker in multiprocessing.active_children():  # an orphan would complain that its parent is gone
                worker.kill()
        os._exit(INTERRUPTED)


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported. Some swallow the exception, and are left half imported."""
    while frame is not None:
        if frame.f_code.co_filename == IMPORT_SYSTEM:
            return True
        frame = frame.f_back
    return False


interrupts = Interrupts()
