"""Workers: Ctrl-C ends them with their parent, and their errors arrive unchanged."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import trees
from covpool._errors import CovpoolError
from covpool.data._settings import Data, ResolvedAugment
from covpool.data.pipeline._batches import EvalBatches, TrainBatches
from covpool.data.pipeline._loader import Attempts, Keys, collate
from covpool.data.pipeline._samples import Sample, Samples
from covpool.data.sets._open import open_data

PROGRAM = """
import sys
from covpool.data.pipeline._batches import TrainBatches
from covpool.data._settings import ResolvedAugment, Data
from covpool.data.sets._open import open_data

data = Data(root=sys.argv[1], workers=2)
batches = TrainBatches(open_data(data).train, ResolvedAugment(size=16), data, batch_size=2)
for epoch in range(10**6):
    for batch in batches.epoch(epoch):
        print(*(worker.pid for worker in batches._source._loader._iterator._workers), flush=True)
"""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_ctrl_c_ends_all_processes_with_one_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(trees.make_folder(tmp_path))]
    program = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert program.stdout is not None
    workers = [int(pid) for pid in program.stdout.readline().split()]
    assert len(workers) == 2 and all(map(alive, workers))
    os.killpg(program.pid, signal.SIGINT)  # a terminal sends it to all processes
    _, errors = program.communicate(timeout=60)
    # Python's thread that passes file descriptors between processes may also report a broken pipe.
    assert program.returncode != 0 and errors.count("KeyboardInterrupt") == 1
    assert not any(map(alive, workers))


def test_keys_follow_the_epoch_that_was_set() -> None:
    keys = Keys()
    assert list(keys) == []
    keys.rows, keys.epoch = [torch.tensor([4, 2]), torch.tensor([1])], 3
    assert list(keys) == list(keys) == [[(3, 4), (3, 2)], [(3, 1)]]


def test_collating_keeps_order_and_reasons() -> None:
    samples = [Sample(torch.full((3, 2, 2), float(i)), 10 + i, i, "cut off" * (i == 1)) for i in range(3)]
    x, y, index, reasons = collate(samples)
    assert x[:, 0, 0, 0].tolist() == [0, 1, 2] and y.tolist() == [10, 11, 12] and index.tolist() == [0, 1, 2]
    assert reasons == ["", "cut off", ""]


def test_the_first_error_among_samples_replaces_the_batch() -> None:
    sample, errors = Sample(torch.zeros(3, 2, 2), 0, 0, ""), [CovpoolError("one"), CovpoolError("two")]
    assert collate([sample, *errors]) is errors[0]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_in_a_worker_keeps_its_message(workers: int, tmp_path: Path) -> None:
    data = Data(root=str(trees.make_folder(tmp_path)), workers=workers, broken="skip")
    splits = open_data(data)
    with pytest.raises(ValueError, match=r"^ten crops of 64 pixels need images at least as large; got 32 x ") as caught:
        list(EvalBatches(splits.test, ResolvedAugment(size=64, resize=()), data, batch_size=2, crops=10))
    assert isinstance(caught.value, CovpoolError)
    for path in splits.train.paths:
        trees.break_image(path)
    with pytest.raises(ValueError, match=r"^none of the 12 images can be read") as caught:
        next(TrainBatches(splits.train, ResolvedAugment(size=16), data, batch_size=2).epoch(0))
    assert isinstance(caught.value, CovpoolError)


def test_a_bug_in_a_worker_is_reported_by_torch(tmp_path: Path) -> None:
    images = open_data(Data(root=str(trees.make_folder(tmp_path)))).train
    with pytest.raises(ValueError, match="invalid literal"):
        Attempts(Samples(images, lambda _: torch.zeros(int("a fault"))))[0, 0]
