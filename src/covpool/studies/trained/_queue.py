"""The queue: trainings without a record. Several run at once, each in its own process."""

import hashlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

import torch

from covpool._errors import CovpoolError, DivergedError
from covpool._files import read_tensors
from covpool._records import read_lines
from covpool.data.sets import open_data
from covpool.engine.evaluation import SCORES_FILE
from covpool.engine.training import LAST_CHECKPOINT, LOG_FILE
from covpool.recipe import RECIPE_FILE, read_recipe
from covpool.studies.claims import ArmResult, pack
from covpool.studies.trained._arm import TrainedArm
from covpool.studies.trained._claims import PRE_TRAINED_ON

PATTERN = "trained_*.jsonl"
LAST_EPOCH_ALONE = "evaluate.every=1000000"
SHOWN = 300  # characters of an error


@dataclass(frozen=True)
class TrainingData:
    """The data set of the trainings, and the settings that they share.

    Attributes:
        name: Name of the data set in the records.
        folder: Its folder, for `covpool train --data`.
        weights: File with the weights of the backbone, for trainings that start from them; "" downloads them.
        settings: Further settings for every training, such as data.cache=gpu.
        pre_training: The data set of the trainings that others start from.
    """

    name: str
    folder: str
    weights: str = ""
    settings: tuple[str, ...] = ()
    pre_training: "TrainingData | None" = None


def train_arms(
    data: TrainingData,
    arms: Sequence[TrainedArm],
    runs: Path,
    *,
    at_once: int,
    seconds: float,
    on_failure: Callable[[TrainedArm, Exception], None],
) -> Iterator[ArmResult]:
    """Run trainings in the order of the queue, and yield the result of each when it ends.

    An interrupted training is resumed. If the loss of a training is not finite, every image counts as wrong, because a
    claim may predict that the training fails. A training that fails otherwise gets no record, and the others go on.

    Args:
        data: The data set and the weights.
        arms: The trainings.
        runs: Folder of their runs.
        at_once: Number of trainings at the same time.
        seconds: Time after which no further training begins.
        on_failure: Receives each failed training and its error.
    """
    begin, left = time.monotonic(), iter(arms)
    running: dict[Future[ArmResult], TrainedArm] = {}
    locks = Locks()
    with ThreadPoolExecutor(at_once) as pool:
        while True:
            if time.monotonic() - begin < seconds:
                for arm in islice(left, at_once - len(running)):
                    running[pool.submit(_run_arm, data, arm, runs, locks)] = arm
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                arm = running.pop(future)
                error = future.exception()
                if error is None:
                    yield future.result()
                elif isinstance(error, CovpoolError):
                    on_failure(arm, error)
                else:
                    raise error


class Locks:
    """A lock for the folder of each run, which several arms may need at the same time."""

    def __init__(self) -> None:
        self._one_at_a_time, self._locks = Lock(), dict[Path, Lock]()

    def of(self, run: Path) -> Lock:
        """Return the lock of a folder, the same one to every thread."""
        with self._one_at_a_time:
            return self._locks.setdefault(run, Lock())


def _run_arm(data: TrainingData, arm: TrainedArm, runs: Path, locks: Locks) -> ArmResult:
    """Train a network, or two whose scores are fused. What another arm has trained in the same folder is not repeated.

    Args:
        data: The data set and the weights.
        arm: The training.
        runs: Folder of the runs.
        locks: The locks of these folders.
    """
    scores, seconds = [], 0.0
    for one in (arm.alone, *([arm.fused_with] if arm.fused_with else [])):
        run = _train(data, one, runs, locks)
        count = len(open_data(read_recipe(str(run / RECIPE_FILE)).data).test)
        seconds += _seconds(run)
        if not (run / SCORES_FILE).is_file():
            nothing = pack(torch.zeros(count).bool())
            return ArmResult(**_identity(data, arm), images=count, right=nothing, converged=False, seconds=seconds)
        found = read_tensors(run / SCORES_FILE)
        scores.append(found["logits"].log_softmax(1))
        targets = found["targets"]
    right = torch.stack(scores).sum(0).argmax(1) == targets
    return ArmResult(
        **_identity(data, arm),
        top1=float(right.double().mean()),
        images=len(right),
        right=pack(right),
        seconds=seconds,
    )


def _identity(data: TrainingData, arm: TrainedArm) -> dict[str, Any]:
    """What a record is found by."""
    return {"data": data.name, "arm": arm.name, "settings": arm.digest}


def _train(data: TrainingData, arm: TrainedArm, runs: Path, locks: Locks) -> Path:
    """Train a network and return the folder of its run. It has no scores if the loss is not finite."""
    start = None
    if arm.starts_from is not None:
        if data.pre_training is None:
            raise CovpoolError(f"it starts from a training on {PRE_TRAINED_ON}: add --data {PRE_TRAINED_ON}=FOLDER")
        start = _train(data.pre_training, arm.starts_from, runs, locks) / LAST_CHECKPOINT
        if not start.with_name(SCORES_FILE).is_file():
            raise CovpoolError(f"it starts from {arm.starts_from.name}, whose loss is not finite")
    # Trainings with other data, weights or settings have folders of their own, so that no result is taken for another.
    conditions = hashlib.sha256(repr((data.folder, data.weights, data.settings, arm.digest)).encode()).hexdigest()[:8]
    run = runs / f"{quote(f'{data.name} {arm.name}', safe=' =,.-[]')} {conditions}"
    with locks.of(run):
        if not (run / SCORES_FILE).is_file():
            done = subprocess.run(_command(data, arm, run, start), capture_output=True, text=True, check=False)
            diverged = done.returncode == DivergedError.exit_code
            if not diverged and (done.returncode or not (run / SCORES_FILE).is_file()):
                said = (done.stderr.strip() or done.stdout.strip())[-SHOWN:]
                raise CovpoolError(said or f"exit status {done.returncode}")
    return run


def _command(data: TrainingData, arm: TrainedArm, run: Path, start: Path | None = None) -> list[str]:
    """The command that trains; what the name of the record promises comes last, so that nothing replaces it."""
    program = [sys.executable, "-m", "covpool", "train"]
    if (run / RECIPE_FILE).is_file():
        return [*program, "--resume", str(run), "--no-report"]
    weights = str(start) if start else data.weights if arm.resolved.init.pretrained else ""
    init = ["init.pretrained=false", f"init.weights={weights}"] if weights else []
    return [
        *(*program, arm.recipe, "--data", data.folder, "devices.devices=1", *data.settings, *arm.settings, *init),
        *(f"seed={arm.seed}", LAST_EPOCH_ALONE, "--no-report", "--out", str(run)),
    ]


def _seconds(run: Path) -> float:
    """Time of the epochs of a run and of their evaluations."""
    epochs = [event for event in read_lines(run / LOG_FILE) if event["event"] == "epoch"]
    return sum(event["seconds"] + event.get("evaluation_seconds", 0.0) for event in epochs)
