"""Figure 7 of a checkpoint, as a user types it."""

import json
from pathlib import Path

import pytest

import covpool
from cli.runner import refused, run
from tiny import CLASSES, make_tree


def test_figure_7_of_a_checkpoint_covers_the_whole_test_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    root = make_tree(tmp_path / "images", train=1, test=5)
    network = covpool.attach("test_resnet", "isqrt", 3, reduce_to=8)
    covpool.save(network, "net.safetensors", preprocessing={"size": 32, "resize": [32]}, class_names=CLASSES)
    result = run("paper", "figure", "7", f"data.root={root}", "--checkpoint", "net.safetensors", "--device", "cpu")
    assert result.exit_code == 0, result.output
    before, after = map(json.loads, Path("runs/paper/figure-7.jsonl").read_text().splitlines())
    assert (before["which"], after["which"]) == ("before", "after")
    assert before["images"] == 15 and before["eigenvalues"] == 15 * 8 and before["commit"] and before["command"]
    assert sum(before["share"]) + before["zero"] == pytest.approx(1) and after["largest"] > before["largest"] ** 0.5 / 3
    assert Path("runs/paper/figure-7.png").is_file()
    assert "table 8 shows no eigenvalues" in refused("paper", "table", "8", "--checkpoint", "net.safetensors")
    assert "does not say which data" in refused("paper", "figure", "7", "--checkpoint", "net.safetensors")
