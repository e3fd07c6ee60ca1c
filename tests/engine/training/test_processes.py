"""Two processes give the result of one process with twice the batch."""

import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from covpool._records import read_lines
from covpool.engine.training._loop import train
from covpool.recipe import to_toml
from tiny import finish, free_ports, make_tree, start, start_nodes, tiny_recipe

TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "covpool")


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with recipe.toml and `one`, the run of that recipe in one process.

    The activation is smooth, because at the kink of a ReLU the last bit of a sum changes a whole gradient.
    """
    folder = tmp_path_factory.mktemp("single")
    root = make_tree(folder / "tree", test=5)
    (root / "test" / "red" / "4.png").unlink()
    (root / "test" / "blue" / "4.png").unlink()
    recipe = tiny_recipe(
        root,
        model={"backbone_options": {"act_layer": "gelu"}},
        pool={"options": {"reduce_to": 16, "reduce_kind": "linear"}},
        init={"reduction": "pca"},
        train={"freeze_norms": True, "accumulate": 2, "clip_norm": 0.5},
        evaluate={"batch_size": 3},
    )
    train(recipe, folder / "one")
    (folder / "recipe.toml").write_text(to_toml(recipe))
    return folder


@pytest.mark.long
@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_process_ends_the_other_with_a_reason(single: Path, tmp_path: Path, lost: int) -> None:
    run = tmp_path / "run"
    command = ("train", single / "recipe.toml", "train.epochs=500", "train.save_every=1", "--out", run, "--no-report")
    processes = start_nodes(*free_ports(1), *command)
    try:
        deadline = time.monotonic() + 100
        while not (run / "state.pt").exists():
            assert time.monotonic() < deadline and all(process.poll() is None for process in processes)
            time.sleep(0.05)
        processes[lost].send_signal(signal.SIGKILL)
        output, _ = processes[1 - lost].communicate(timeout=60)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert processes[1 - lost].returncode == 2 and "Traceback" not in output
    assert "covpool: another process of this training died or hangs" in output and f"--resume {run}" in output


@pytest.mark.parametrize("nodes", [pytest.param(1, marks=pytest.mark.long), 2])
def test_same_parameters_and_scores_as_one_process(single: Path, tmp_path: Path, nodes: int) -> None:
    """13 test images do not fill batches of 3 on two processes evenly: every image must still count once."""
    command = ("train", single / "recipe.toml", "--out", tmp_path / "two")
    started = [start(*command, program=TORCHRUN)] if nodes == 1 else start_nodes(*free_ports(1), *command)
    printed = "".join(finish(process) for process in started)
    assert printed.count("everything is in") == 1
    assert (tmp_path / "two" / "report.html").exists()  # the first process writes it, when the other may have left
    runs = (single / "one", tmp_path / "two")
    one, two = (load_file(run / "last.safetensors") for run in runs)
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=0, atol=1e-5, msg=lambda m, name=name: f"{name}: {m}")
    logs = [read_lines(run / "log.jsonl") for run in runs]
    assert [(e["event"], e["step"]) for e in logs[0]] == [(e["event"], e["step"]) for e in logs[1]]
    for mine, theirs in zip(*logs, strict=True):
        for key in ("loss", "test_loss", "train_loss", "gradient_norm_pool"):
            assert mine.get(key) == pytest.approx(theirs.get(key), abs=1e-5)
        assert mine.get("top1") == theirs.get("top1") and mine.get("train_top1") == theirs.get("train_top1")
    scores = [load_file(run / "scores.safetensors") for run in runs]
    assert torch.equal(scores[0]["targets"], scores[1]["targets"]) and len(scores[0]["targets"]) == 13
