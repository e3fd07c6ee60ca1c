"""What needs a GPU: captured steps, loss scaling, shared batch norms, weights spread over processes."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from covpool._progress import ignore
from covpool._records import read_lines
from covpool.data.pipeline import Batch
from covpool.data.sets import open_data
from covpool.engine._devices import make_fabric, reproducible
from covpool.engine._graphs import CapturedForward, Graphs
from covpool.engine.training._captured_step import WARM_UP
from covpool.engine.training._interrupt import StopRequests
from covpool.engine.training._loop import train
from covpool.engine.training._optimizer import set_lr
from covpool.engine.training._session import Session
from covpool.engine.training._stage import StageTraining
from covpool.recipe import Recipe, resolve_stages, to_toml
from engine.training.test_resume import assert_same_end, train_until
from tiny import Process, finish, free_ports, make_tree, start, start_nodes, tiny_recipe

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

GPU = {"accelerator": "gpu", "devices": "1"}
EXACT = {"NVIDIA_TF32_OVERRIDE": "0"}  # with TF32, the error of a convolution depends on the batch size


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tree(tmp_path_factory.mktemp("images") / "tree")


def set_up(recipe: Recipe, run: Path) -> StageTraining:
    """The first stage of a training on the GPU, before its first step."""
    session = Session(make_fabric(recipe.devices, recipe.train.precision), recipe, run, open_data(recipe.data), ignore)
    session.begin()
    stage = StageTraining(session, next(resolve_stages(session.recipe)), StopRequests(lambda: None))
    stage._begin_epoch()
    return stage


def micro_batches(stage: StageTraining) -> Iterator[list[Batch]]:
    """The micro-batches of one step after another."""
    batches = chain.from_iterable(map(stage.batches.epoch, range(100)))
    while True:
        yield list(islice(batches, stage.settings.accumulate))


def all_tensors(stage: StageTraining) -> list[Tensor]:
    """Weights, batch-norm statistics, momentum, averages and meters."""
    network, ema = stage.session.network, stage.session.ema
    averaged = [] if ema is None else [*ema.module.parameters(), *ema.module.buffers()]
    states = [value for state in stage.optimizer.optimizer.state.values() for value in state.values()]
    return [each.detach() for each in (*network.parameters(), *network.buffers(), *states, *averaged, stage.meter.sums)]


def step_as_it_is(stage: StageTraining, batches: list[Batch], number: int) -> None:
    runner = stage.stepper.runner
    kept = runner._replays, runner._graphs, runner._inputs
    runner._replays, runner._graphs = [], None
    stage.stepper.step(iter(batches), number)
    runner._replays, runner._graphs, runner._inputs = kept


STEPS: dict[str, dict[str, Any]] = {
    "sgd": {"optimizer": {"nesterov": True}},
    "sgd without momentum": {"optimizer": {"momentum": 0.0}},
    "adamw": {"optimizer": {"name": "adamw", "lr": 1e-3}},
    "ema": {"train": {"ema": 0.9}},
    "clip": {"train": {"clip_norm": 0.5}},
    "accumulate": {"train": {"accumulate": 3, "channels_last": True}},
    "mixup": {"augment": {"mixup": 0.2, "cutmix": 1.0}},
    "random numbers": {"model": {"backbone_options": {"drop_path_rate": 0.5, "drop_rate": 0.5}}},
    "frozen": {"train": {"freeze": ("features",)}},
}


@pytest.mark.parametrize("precision", ["32", "bf16"])
@pytest.mark.parametrize("changes", STEPS.values(), ids=STEPS)
def test_captured_steps_are_bitwise_those_of_single_operations(
    tree: Path, tmp_path: Path, changes: dict[str, Any], precision: str
) -> None:
    """20 steps, each from the same state."""
    recipe = tiny_recipe(tree, data={"cache": "gpu"}, devices=GPU).changed(**changes)
    with reproducible(True):
        stage = set_up(recipe.changed(train={"deterministic": True, "precision": precision}), tmp_path)
        for number, batches in enumerate(islice(micro_batches(stage), WARM_UP + 20)):
            set_lr(stage.optimizer, 0.9**number)
            before = [each.clone() for each in all_tensors(stage)]
            stage.stepper.step(iter(batches), number)
            assert stage.stepper.runner.is_captured == (number >= WARM_UP)
            after = [each.clone() for each in all_tensors(stage)]
            if number < WARM_UP:
                continue
            for tensor, value in zip(all_tensors(stage), before, strict=True):
                tensor.copy_(value)
            step_as_it_is(stage, batches, number)
            assert all(map(torch.equal, all_tensors(stage), after))


def wait(module: torch.nn.Module, args: tuple[Tensor, ...]) -> None:
    """Wait for the device, as a network does that reads a result on the host."""
    torch.rand_like(args[0]).sum().item()


@contextmanager
def unnoticed() -> Iterator[list[str]]:
    yield []


@pytest.mark.parametrize("is_noticed", [True, False], ids=["before the capture", "by the capture"])
def test_a_network_that_waits_for_the_device_is_trained_as_it_is(
    tree: Path, tmp_path: Path, is_noticed: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if not is_noticed:
        monkeypatch.setattr(Graphs, "synchronizations", staticmethod(unnoticed))
    recipe = tiny_recipe(tree, data={"cache": "gpu"}, devices=GPU, train={"deterministic": True, "ema": 0.9})
    ends = []
    with reproducible(True), caplog.at_level(logging.WARNING, logger="covpool"):
        for graph in ("auto", False):
            stage = set_up(recipe.changed(train={"graph": graph}, optimizer={"options": {"fused": True}}), tmp_path)
            if graph:
                stage.session.network.features.register_forward_pre_hook(wait)
            for number, batches in enumerate(islice(micro_batches(stage), WARM_UP + 4)):
                set_lr(stage.optimizer, 1.0)
                stage.stepper.step(iter(batches), number)
            assert not stage.stepper.runner.is_captured
            ends.append(all_tensors(stage))
    torch.cuda.empty_cache()
    assert all(torch.allclose(*pair, rtol=1e-4, atol=1e-6) for pair in zip(*ends, strict=True))
    (said,) = [record.getMessage() for record in caplog.records if "CUDA graph" in record.getMessage()]
    assert ("the host waits for the device at " in said) == is_noticed


def test_captured_inference_equals_the_function() -> None:
    layer = torch.nn.Linear(8, 4).cuda()
    forward = CapturedForward(lambda x: (layer(x), x + 1))
    with torch.no_grad():
        for _ in range(6):
            x = torch.randn(5, 8, device="cuda")
            layer.weight.mul_(0.5)
            found = forward(x)
            assert torch.equal(found[0], layer(x)) and torch.equal(found[1], x + 1)
        assert len(forward._captured) == 1
        smaller = forward(x[:2])
        assert torch.equal(smaller[1], x[:2] + 1) and torch.allclose(smaller[0], layer(x[:2]))


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("step", [5, 8])
def test_half_precision_is_resumed_bit_for_bit(tree: Path, tmp_path: Path, precision: str, step: int) -> None:
    """In the middle of an epoch and at its end. In fp16 the state of the scaler decides which steps are skipped."""
    recipe = tiny_recipe(
        tree,
        data={"cache": "gpu"},
        train={"precision": precision, "deterministic": True, "epochs": 3, "ema": 0.9, "save_every": 3},
        devices=GPU,
    )
    train(recipe, tmp_path / "whole")
    train_until(recipe, tmp_path / "killed", event="tick", step=step)
    assert_same_end(tmp_path / "whole", tmp_path / "killed")
    scalers = [torch.load(tmp_path / run / "state.pt", weights_only=True)["scaler"] for run in ("whole", "killed")]
    assert scalers[0] == scalers[1]
    assert bool(scalers[0]) == (precision == "fp16")


@pytest.fixture
def started() -> Iterator[list[Process]]:
    """The processes of a test, killed at its end."""
    processes: list[Process] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def kill_after(nodes: list[Process], run: Path, step: int) -> None:
    """Kill processes once the log has reached a step."""
    deadline = time.monotonic() + 120
    try:
        while not any(event["step"] >= step for event in read_lines(run / "log.jsonl")):
            for node in nodes:
                assert node.poll() is None, node.communicate()[0]
            assert time.monotonic() < deadline
            time.sleep(0.005)
    finally:
        for node in nodes:
            node.kill()
    for node in nodes:
        node.communicate()


def events(run: Path) -> list[tuple[str, int]]:
    return [(event["event"], event["step"]) for event in read_lines(run / "log.jsonl")]


def test_two_processes_with_shared_norms_are_like_one(tree: Path, tmp_path: Path, started: list[Process]) -> None:
    """DDP, and FSDP killed and resumed, give the parameters and batch-norm statistics of one process."""
    recipe = tiny_recipe(
        tree,
        model={"backbone_options": {"act_layer": "gelu"}},  # a ReLU would amplify rounding errors
        pool={"options": {}},
        train={"sync_norms": True, "clip_norm": 0.5, "epochs": 3, "save_every": 3},
        devices=GPU,
    )
    written = tmp_path / "recipe.toml"
    written.write_text(to_toml(recipe))
    ports = free_ports(3)
    command = ("train", written, "--no-report")
    started.append(start(*command, "--out", tmp_path / "one", **EXACT))
    started += start_nodes(ports[0], *command, "devices.strategy=ddp", "--out", tmp_path / "ddp", **EXACT)
    fsdp = start_nodes(ports[1], *command, "devices.strategy=fsdp", "--out", tmp_path / "fsdp", **EXACT)
    kill_after(fsdp, tmp_path / "fsdp", 6)  # of 4 steps per epoch
    assert read_lines(tmp_path / "fsdp" / "log.jsonl")[-1]["event"] != "end", "the run ended before it was killed"
    started += start_nodes(ports[2], "train", "--resume", tmp_path / "fsdp", "--no-report", **EXACT)
    for process in started:
        finish(process)
    one = load_file(tmp_path / "one" / "last.safetensors")
    for strategy in ("ddp", "fsdp"):
        other = load_file(tmp_path / strategy / "last.safetensors")
        assert one.keys() == other.keys()
        far = {name for name in one if not torch.allclose(other[name], one[name], rtol=1e-4, atol=1e-4)}
        assert not far, strategy
        assert events(tmp_path / strategy) == events(tmp_path / "one")
