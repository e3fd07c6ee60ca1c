"""Writing files beside the training."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Writer:
    """Runs one function at a time in a thread. An error is raised by the next call."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="covpool-writer")
        self._last: Future[None] | None = None

    def submit(self, write: Callable[[], None]) -> None:
        """Wait for the last function to end, and start another."""
        self.wait()
        self._last = self._thread.submit(write)

    def wait(self) -> None:
        """Wait for the last function to end."""
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def close(self) -> None:
        """Wait for the last function and end the thread."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()
