"""Two processes are one process with the doubled batch."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from covpool.engine.training._log import read_log
from covpool.engine.training._loop import train
from covpool.recipe import to_toml
from tiny import finish, free_ports, make_tree, start, start_nodes, tiny_recipe

TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "covpool")


@pytest.mark.parametrize("nodes", [1, 2])
def test_same_parameters_and_scores_as_one_process(tmp_path: Path, nodes: int) -> None:
    """13 test images in batches of 3 do not go round: every image must still count once.

    A smooth network: at the kink of a ReLU the last bit of a sum decides over a whole gradient.
    """
    root = make_tree(tmp_path / "tree", test=5)
    (root / "test" / "red" / "4.png").unlink()
    (root / "test" / "blue" / "4.png").unlink()
    recipe = tiny_recipe(
        root,
        model={"backbone_options": {"act_layer": "gelu"}},
        pool={"options": {}},
        train={"freeze_norms": True, "accumulate": 2, "clip_norm": 0.5},
        evaluate={"batch_size": 3},
    )
    train(recipe, tmp_path / "one")
    written = tmp_path / "recipe.toml"
    written.write_text(to_toml(recipe))
    command = ("train", written, "--out", tmp_path / "two")
    started = [start(*command, program=TORCHRUN)] if nodes == 1 else start_nodes(*free_ports(1), *command)
    printed = "".join(finish(process) for process in started)
    assert printed.count("everything is in") == 1
    assert (tmp_path / "two" / "report.html").exists()  # made by the first, when the other may have left
    one, two = (load_file(tmp_path / run / "last.safetensors") for run in ("one", "two"))
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=0, atol=1e-5, msg=lambda m, name=name: f"{name}: {m}")
    logs = [read_log(tmp_path / run / "log.jsonl") for run in ("one", "two")]
    assert [(e["event"], e["step"]) for e in logs[0]] == [(e["event"], e["step"]) for e in logs[1]]
    for mine, theirs in zip(*logs, strict=True):
        for key in ("loss", "test_loss", "train_loss", "gradient_norm_pool"):
            assert mine.get(key) == pytest.approx(theirs.get(key), abs=1e-5)
        assert mine.get("top1") == theirs.get("top1") and mine.get("train_top1") == theirs.get("train_top1")
