"""Writing files while the training goes on."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

AT_ONCE = 4  # unfinished functions at most, because each holds copies of the tensors that it writes


class Writer:
    """Runs functions one after another in a thread.

    If one raises an error, those after it do not run, and a later call of a method raises the error.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="covpool-writer")
        self._submitted: deque[Future[None]] = deque()
        self._has_failed = False

    def submit(self, write: Callable[[], None]) -> None:
        """Run a function after the functions submitted before it. Waits if too many are unfinished."""
        while self._submitted and (self._submitted[0].done() or len(self._submitted) == AT_ONCE):
            self._submitted.popleft().result()
        self._submitted.append(self._thread.submit(self._run, write))

    def wait(self) -> None:
        """Wait until all functions have ended."""
        while self._submitted:
            self._submitted.popleft().result()

    def close(self) -> None:
        """Wait until all functions have ended, and end the thread."""
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
