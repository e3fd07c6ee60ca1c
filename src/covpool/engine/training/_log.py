"""The log of a run: one JSON object per line, and the same values for TensorBoard."""

import importlib.util
import json
import logging
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any

from covpool._errors import require
from covpool._records import read_lines
from covpool.io import replacing

logger = logging.getLogger(__name__)

LOG_FILE = "log.jsonl"
Event = Mapping[str, Any]  # "event" is its kind, "step" the optimizer step


class Log:
    """Appends events to the log of a run.

    Args:
        run: The folder of the run.
        step: The step to resume from; lines after it, written by a killed session, are removed. None = a new run.
    """

    def __init__(self, run: Path, step: int | None = None) -> None:
        self.path = run / LOG_FILE
        lines = [] if step is None else read_lines(self.path)
        kept = [line for line in lines if line["step"] <= (step or 0) and line["event"] != "end"]
        with replacing(self.path) as partial:
            partial.write_text("".join(map(_line, kept)))
        self._writer = _tensorboard(run / "tensorboard", (step or 0) + 1)

    def write(self, event: Event) -> None:
        """Append an event to the file."""
        try:
            with self.path.open("a") as file:
                file.write(_line(event))
        except OSError as error:
            raise OSError(
                f"{str(self.path)!r} cannot be written: {error.strerror}; the last saved state is intact"
            ) from error
        if self._writer is None:
            return
        for key, value in event.items():
            if isinstance(value, Real) and not isinstance(value, bool) and key != "step":
                self._writer.add_scalar(f"{event['event']}/{key}", value, event["step"])

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _tensorboard(folder: Path, first_step: int) -> Any:
    """TensorBoard's writer; None, with a warning, if it is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        logger.warning("tensorboard is not installed: the log is written to %s only", LOG_FILE)
        return None
    return require("torch.utils.tensorboard", "train").SummaryWriter(folder, purge_step=first_step)


def _line(event: Event) -> str:
    return json.dumps(dict(event)) + "\n"
