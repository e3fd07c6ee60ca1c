"""Running what has no record yet: the trainings of claims and of the search, and the measurement of gradients."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from covpool._records import append_lines, environment, read_lines
from covpool.data import Data
from covpool.studies.claims import ArmResult, Claim, Recorder, plan
from covpool.studies.trained._arm import TrainedArm
from covpool.studies.trained._claims import PRE_TRAINED_ON
from covpool.studies.trained._gradients import GRADIENTS, measure_gradients
from covpool.studies.trained._measured import SIZE, TIME
from covpool.studies.trained._queue import PATTERN, TrainingData, train_arms
from covpool.studies.trained._scoreboard import SEARCH_PATTERN, read_records
from covpool.studies.trained._setting import find_setting


@dataclass(frozen=True)
class Queue:
    """How trainings run.

    Attributes:
        recorder: Records the results, and counts the failures.
        runs: Folder of the runs.
        at_once: Number of trainings at the same time.
    """

    recorder: Recorder
    runs: Path
    at_once: int

    def train(self, arms: Sequence[TrainedArm], data: TrainingData, pattern: str) -> int:
        """Run trainings and record them. Returns how many have ended with a record."""
        recorder = self.recorder

        def failed(arm: TrainedArm, error: Exception) -> None:
            recorder.failures += 1
            recorder.tell(f"{arm.name} failed: {error}")

        path = recorder.file(pattern, data.name)
        with recorder.counting(data.name) as on_progress:
            on_progress(data.name, 0, len(arms))
            results = train_arms(
                data, arms, self.runs, at_once=self.at_once, seconds=recorder.seconds, on_failure=failed
            )
            done = recorder.record(results, path, len(arms), on_progress, _in_words)
        recorder.tell(f"{data.name}: {done} of {len(arms)} missing trainings done; records: {path}")
        return done


def run_search(queue: Queue, data: TrainingData) -> None:
    """Run the screening, and then the finals, as far as the time allows."""
    search = find_setting(data.name).search
    while True:
        arms = search.missing(read_records(queue.recorder.folder).searches.get(data.name, {}))
        if not arms or queue.train(arms, data, SEARCH_PATTERN) < len(arms):
            return


def run_claims(queue: Queue, data: TrainingData, claims: Sequence[Claim[Any]], images: Data, *, explicit: bool) -> None:
    """Run what is missing on a data set. Gradients are measured if asked for by number, or where weights are used.

    Args:
        queue: How trainings run.
        data: The data set.
        claims: The claims.
        images: The data set as it is read to measure gradients.
        explicit: Whether the claims were asked for by number.
    """
    tell = queue.recorder.tell
    if explicit and list(claims) == [SIZE]:  # on any images
        _measure(queue.recorder, data, images)
        return
    if explicit and TIME in claims:
        tell(f"claim {TIME.number} needs no training: `covpool bench --model` makes its records")
    setting = find_setting(data.name)
    arms = plan(setting.only(claims).claims, read_records(queue.recorder.folder).claims.get(data.name, {}))
    later = [arm for arm in arms if arm.starts_from and data.pre_training is None]
    if later:
        tell(
            f"{len(later)} trainings start from trainings on {PRE_TRAINED_ON}, and are left out: add --data "
            f"{PRE_TRAINED_ON}=FOLDER"
        )
    queue.train([arm for arm in arms if arm not in later], data, PATTERN)
    if SIZE in claims and (explicit or setting.starts_from_weights):
        _measure(queue.recorder, data, images)


def _measure(recorder: Recorder, data: TrainingData, images: Data) -> None:
    """Measure gradients, unless they have a record."""
    path = recorder.file(f"{GRADIENTS}_*.jsonl", data.name)
    if any(line["data"] == data.name for line in read_lines(path)):
        return
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with recorder.counting(data.name) as on_progress:
        found = measure_gradients(data.name, images, weights=data.weights, device=device, on_progress=on_progress)
    append_lines(path, {**environment(device, 0), **found})
    recorder.tell(f"{data.name}: gradients measured; record: {path}")


def _in_words(result: ArmResult) -> str:
    told = f"{100 * result.top1:.1f} %" if result.converged else "diverged"
    return f"{told}, {result.seconds:.0f} s"
