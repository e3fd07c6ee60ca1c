"""The queue: trainings without a record. Several run at once, each in its own process."""

import hashlib
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock
from urllib.parse import quote

import torch
from torch import Tensor

from covpool._errors import CovpoolError
from covpool._files import read_tensors
from covpool.engine.evaluation import SCORES_FILE
from covpool.recipe import RECIPE_FILE
from covpool.studies.claims import ArmResult, pack
from covpool.studies.trained._arm import TrainedArm

PATTERN = "trained_*.jsonl"
LAST_EPOCH_ALONE = "evaluate.every=1000000"
DIVERGED = "the loss is not finite"
SHOWN = 300  # characters of an error


@dataclass(frozen=True)
class TrainingData:
    """The data set of the trainings, and the settings that they share.

    Attributes:
        name: Name of the data set in the records.
        folder: Its folder, for `covpool train --data`.
        weights: File with the weights of the backbone, for trainings that start from them; "" downloads them.
        settings: Further settings for every training, such as data.cache=gpu.
    """

    name: str
    folder: str
    weights: str = ""
    settings: tuple[str, ...] = ()


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
    locks: defaultdict[str, Lock] = defaultdict(Lock)
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


def _run_arm(data: TrainingData, arm: TrainedArm, runs: Path, locks: defaultdict[str, Lock]) -> ArmResult:
    """Train a network, or two whose scores are fused. What another arm has trained in the same folder is not repeated.

    Args:
        data: The data set and the weights.
        arm: The training.
        runs: Folder of the runs.
        locks: A lock for each training, which several arms may need at the same time.
    """
    begin, scores = time.monotonic(), []
    for one in (arm.alone, *([arm.fused_with] if arm.fused_with else [])):
        with locks[one.name]:
            found = _train(data, one, runs)
        if found is None:
            count = _count_test_images(data)
            return ArmResult(data=data.name, arm=arm.name, images=count, right=pack(torch.zeros(count).bool()))
        scores.append(found["logits"].log_softmax(1))
        targets = found["targets"]
    right = torch.stack(scores).sum(0).argmax(1) == targets
    return ArmResult(
        data=data.name,
        arm=arm.name,
        top1=float(right.double().mean()),
        images=len(right),
        right=pack(right),
        seconds=time.monotonic() - begin,
    )


def _train(data: TrainingData, arm: TrainedArm, runs: Path) -> Mapping[str, Tensor] | None:
    """Train a network and return the scores of the test images; None if the loss is not finite."""
    # Trainings with other weights or settings have folders of their own, so that no result is taken for another.
    conditions = hashlib.sha256(repr((data.folder, data.weights, data.settings)).encode()).hexdigest()[:8]
    run = runs / f"{quote(f'{data.name} {arm.name}', safe=' =,.-[]')} {conditions}"
    scores = run / SCORES_FILE
    if not scores.is_file():
        done = subprocess.run(_command(data, arm, run), capture_output=True, text=True, check=False)
        if DIVERGED in done.stdout + done.stderr:
            return None
        if done.returncode or not scores.is_file():
            said = (done.stderr.strip() or done.stdout.strip())[-SHOWN:]
            raise CovpoolError(f"{arm.name} failed: {said or done.returncode}")
    return read_tensors(scores)


def _command(data: TrainingData, arm: TrainedArm, run: Path) -> list[str]:
    program = [sys.executable, "-m", "covpool", "train"]
    if (run / RECIPE_FILE).is_file():
        return [*program, "--resume", str(run), "--no-report"]
    given = data.weights and arm.resolved.init.pretrained  # a training from scratch needs none
    weights = ["init.pretrained=false", f"init.weights={data.weights}"] if given else []
    return [
        *(*program, arm.recipe, *arm.settings, f"seed={arm.seed}", "--data", data.folder, *weights),
        *("devices.devices=1", LAST_EPOCH_ALONE, *data.settings, "--no-report", "--out", str(run)),
    ]


def _count_test_images(data: TrainingData) -> int:
    from covpool.data import Data
    from covpool.data.sets import open_data

    return len(open_data(Data(root=data.folder)).test)
