"""Recording the results of a queue as they come, so that an interruption loses none."""

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from covpool._progress import OnProgress
from covpool._records import append_lines
from covpool.studies.claims._records import ArmResult


@dataclass
class Recorder:
    """Where results are recorded, until when work begins, and who is told.

    Attributes:
        folder: Folder of the records.
        where: The environment of the results, from `environment`.
        end: Time of `time.monotonic` after which nothing begins.
        tell: Called with a line about everything that is done.
        counting: Makes a context that shows progress, from the name of a data set.
        failures: Number of trainings that failed.
    """

    folder: Path
    where: dict[str, Any]
    end: float
    tell: Callable[[str], None]
    counting: Callable[[str], AbstractContextManager[OnProgress]]
    failures: int = 0

    @property
    def seconds(self) -> float:
        """The time that is left."""
        return self.end - time.monotonic()

    def file(self, pattern: str, data: str) -> Path:
        """Return the file of a data set, in the folder, which is created."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / pattern.replace("*", data.replace("-", ""))

    def record(
        self,
        results: Iterable[ArmResult],
        path: Path,
        count: int,
        on_progress: OnProgress,
        in_words: Callable[[ArmResult], str],
    ) -> int:
        """Append every result to a file as soon as it is there. Returns how many there were.

        Args:
            results: The results as they come.
            path: File of JSON lines.
            count: Number of results that are expected.
            on_progress: Called after every result.
            in_words: Writes the result in a few words.
        """
        done = 0
        for done, result in enumerate(results, 1):
            on_progress(f"{result.data}, {result.arm}", done, count)
            append_lines(path, {**self.where, **result.as_json()})
            self.tell(f"{result.arm}: {in_words(result)}")
        return done
