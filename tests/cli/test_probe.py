"""`covpool probe` as a user types it."""

import json
from pathlib import Path

import pytest

from cli.runner import refused, run
from covpool.cli.probe import _next_steps
from covpool.studies.probe import PoolSummary, read_probe
from tiny import make_tree

SETTINGS = (
    *("backbone=test_resnet", "reduce_to=8", "augment.size=32", "augment.resize=[32]", "data.workers=0"),
    "pretrained=false",
    *("epochs=1", "batch_size=12", "seeds=[0,1]", "lr=[0.1]", "extend_lr=0", "classifier=sgd"),
)
CONVEX = SETTINGS[:6]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "data", train=8)


def test_results_are_shown_kept_and_reused(root: Path, tmp_path: Path) -> None:
    record, plot, markdown = (tmp_path / name for name in ("out/probe.jsonl", "probe.png", "probe.md"))
    files = ("--json", record, "--plot", plot, "--markdown", markdown, "--device", "cpu")
    result = run("probe", "--data", root, *SETTINGS, "pools=[avg,isqrt:iterations=3,lrbp:bottleneck=99]", *files)
    assert result.exit_code == 0, result.output
    assert "not distinguishable from the best" in result.output and "failed" in result.output
    assert "peak MiB" not in result.output, "empty columns are left out"
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert [(line["pool"], line["seed"]) for line in lines[:4]] == [
        *[("avg", 0), ("avg", 1), ("isqrt:iterations=3", 0), ("isqrt:iterations=3", 1)],
    ]
    assert all(line["failed"] for line in lines[4:])
    assert all(line["suite"] == "probe" and line["commit"] and line["torch"] and line["device"] for line in lines)
    assert lines[0]["costs"]["ms_per_batch"] > 0 and lines[0]["costs"]["peak_mib"] is None
    mean = (lines[0]["top1"] + lines[1]["top1"]) / 2
    assert f"| avg | {100 * mean:.1f} | " in markdown.read_text()
    assert plot.read_bytes().startswith(b"\x89PNG")
    again = run("probe", "--data", f"folder:{root}", *SETTINGS, "pools=avg", *files)
    assert again.exit_code == 0 and "2 of 2 results come from the file" in again.output
    assert len(record.read_text().splitlines()) == len(lines)


def test_a_table_a_plot_and_the_next_command(root: Path, tmp_path: Path) -> None:
    record, plot = tmp_path / "probe.jsonl", tmp_path / "probe.svg"
    files = ("--json", record, "--plot", plot, "--device", "cpu")
    result = run("probe", "--data", root, *CONVEX, "pools=[avg,isqrt:iterations=3,svpn:heads=2]", "size=32", *files)
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert [line["seed"] for line in lines] == [0, 0, 0, 1, 2]
    best = max(lines[:3], key=lambda line: line["held_out"])["pool"]
    assert "random weights, 3 seeds" in " ".join(result.output.split())
    if not best.startswith("svpn"):
        fit = f"covpool fit {root} backbone=test_resnet pretrained=false size=32 width=8 pool={best}"
        network = "model.backbone=test_resnet init.pretrained=false"
        train = f"covpool train finetune data.root={root} {network} pool.name={best.partition(':')[0]}"
        assert fit in result.output and train in result.output
    drawn = plot.read_text()
    assert "milliseconds per image" in drawn or "<svg" in drawn
    again = run("probe", "--data", root, *CONVEX, "pools=all", "pools=avg", "size=32", *files)
    assert again.exit_code == 0 and "1 of 1 results come from the file" in again.output


def test_mistakes(root: Path, tmp_path: Path) -> None:
    assert "no backbone" in refused("probe", "--data", root)
    assert "did you mean 'isqrt'" in refused("probe", "--data", root, "backbone=test_resnet", "pools=isqr")
    assert "no folder" in refused("probe", "--data", tmp_path / "none", "backbone=test_resnet")
    assert "key=value" in refused("probe", "--data", root, "isqrt")
    plot = ("--plot", tmp_path / "p.xyz", "--json", tmp_path / "p.jsonl")
    assert "p.xyz" in refused("probe", "--data", root, "backbone=test_resnet", *plot)
    assert not (tmp_path / "p.jsonl").exists()


def test_the_help_keeps_its_brackets() -> None:
    assert "pools=[avg,isqrt]" in run("probe", "--help").output


def test_the_next_commands_build_the_pool_of_the_probe() -> None:
    def commands(*settings: str, pool: str) -> list[str]:
        lines = _next_steps(read_probe(["backbone=resnet18", "data.root=birds", *settings]), PoolSummary(pool, "best"))
        return [line.strip() for line in lines.splitlines()[1:]]

    assert commands(pool="kernel")[0] == "covpool fit birds backbone=resnet18 pretrained=true pool=kernel"
    assert (
        commands("pretrained=false", "reduce_to=64", pool="isqrt")[0]
        == "covpool fit birds backbone=resnet18 pretrained=false width=64 pool=isqrt"
    )
    (only,) = commands("pools=[fbn:rank=4]", pool="fbn:rank=4")  # a fit refuses pools that give scores
    assert only.startswith("covpool train finetune") and only.endswith("pool.name=fbn pool.rank=4")
