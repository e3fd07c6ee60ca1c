"""What needs a GPU: half precision with its loss scaling, shared batch norms, weights spread over processes."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from covpool.engine.training._log import read_log
from covpool.engine.training._loop import train
from covpool.recipe import to_toml
from engine.training.test_resume import assert_same_end, train_until
from tiny import Process, finish, free_ports, make_tree, start, start_nodes, tiny_recipe

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

GPU = {"accelerator": "gpu", "devices": "1"}
EXACT = {"NVIDIA_TF32_OVERRIDE": "0"}  # with TF32, the error of a convolution depends on the batch size


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tree(tmp_path_factory.mktemp("images") / "tree")


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
        while not any(event["step"] >= step for event in read_log(run / "log.jsonl")):
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
    return [(event["event"], event["step"]) for event in read_log(run / "log.jsonl")]


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
    assert read_log(tmp_path / "fsdp" / "log.jsonl")[-1]["event"] != "end", "the run ended before it was killed"
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
