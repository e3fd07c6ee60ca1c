"""Writing files beside the training."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

AT_ONCE = 4  # functions that wait at most, so that the copies of tensors which they write do not pile up


class Writer:
    """Runs functions in a thread, one after another. After an error no further one runs; a later call raises it."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="covpool-writer")
        self._submitted: deque[Future[None]] = deque()
        self._has_failed = False

    def submit(self, write: Callable[[], None]) -> None:
        """Run a function after those submitted before."""
        while self._submitted and (self._submitted[0].done() or len(self._submitted) == AT_ONCE):
            self._submitted.popleft().result()
        self._submitted.append(self._thread.submit(self._run, write))

    def wait(self) -> None:
        """Wait for all functions to end."""
        while self._submitted:
            self._submitted.popleft().result()

    def close(self) -> None:
        """Wait for all functions and end the thread."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()

    def _run(self, write: Callable[[], None]) -> None:
        if self._has_failed:
            return
        try:
            write()
        except BaseException:
            self._has_failed = True
            raise
