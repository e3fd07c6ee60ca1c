"""Every protocol of the paper for one epoch, on a tiny tree in the layout of its data set."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

import trees
from covpool._records import read_lines
from covpool.engine.training._build import build_network
from covpool.engine.training._loop import Result, train
from covpool.recipe._parse import read_recipe

SMALL = (
    "data.workers=0",
    "augment.size=32",
    "model.name=",
    "model.backbone=test_resnet",
    "init.pretrained=false",
    "init.weights=",
    "init.descriptors=64",
    "pool.reduce_to=8",
    "train.log_every=1",
    "devices.accelerator=cpu",
)


def small(name: str, root: Path, run: Path, *settings: str) -> Result:
    tables = [f"stages.{i}" for i in range(len(read_recipe(name).stages))] or ["train"]
    short = [f"{table}.{setting}" for table in tables for setting in ("epochs=1", "batch_size=3")]
    return train(read_recipe(name, [f"data.root={root}", *SMALL, *short, *settings]), run)


@pytest.mark.parametrize(
    ("name", "make", "steps", "settings"),
    [
        ("imagenet-resnet50_isqrt_32k", trees.make_imagenet, 2, ["augment.resize=[36]"]),
        ("imagenet-alexnet_isqrt_32k", trees.make_imagenet, 2, ["augment.resize=[36]"]),
        ("imagenet-vgg16_bn_mpn_32k", trees.make_imagenet, 2, ["augment.scales=[32,40]", "pool.name=mpn"]),
        ("imagenet-resnet50_bcnn", trees.make_imagenet, 2, ["augment.resize=[36]"]),
        ("imagenet-resnet50_fbn", trees.make_imagenet, 2, ["augment.resize=[36]"]),
        ("places365-resnet50_isqrt_32k_epn", trees.make_places365, 2, ["augment.resize=[36,36]", "evaluate.crops=10"]),
        ("finetune-resnet50_isqrt_32k_epn+cub", trees.make_cub, 2, ["augment.resize=[32]"]),
        ("finetune-vgg16_bcnn+cub", trees.make_cub, 4, ["augment.resize=[32]"]),
        ("finetune-vgg16_netvlad+cub", trees.make_cub, 4, ["augment.resize=[32]", "pool.clusters=4"]),
        ("finetune-resnet50_isqrt_32k_gap+aircraft", trees.make_aircraft, 4, ["augment.resize=[36,36]"]),
        ("finetune-vgg16_isqrt_32k+cars", trees.make_cars, 2, ["augment.resize=[32,32]"]),
        ("finetune-vgg16_lrbp+cars", trees.make_cars, 2, ["augment.resize=[32,32]", "pool.bottleneck=4"]),
        ("finetune-resnet50_isqrt_32k+dtd", trees.make_dtd, 4, ["augment.resize=[32]", "data.split=7"]),
        ("finetune-resnet50_deepten+indoor67", trees.make_indoor67, 2, ["augment.resize=[32]"]),
        ("inat2018-resnet152_isqrt_12k", trees.make_inat2018, 2, ["augment.resize=[36]"]),
        ("ablation-alpha", trees.make_imagenet, 2, ["augment.resize=[36]", "pool.name=mpn", "pool.alpha=0.7"]),
        (
            "ablation-compact",
            trees.make_imagenet,
            2,
            ["augment.resize=[36]", "pool.reduce_to=[16,8]", "pool.project_to=8", "pool.groups=4"],
        ),
        ("ablation-iterations", trees.make_imagenet, 2, ["augment.resize=[36]", "pool.iterations=1"]),
        (
            "ablation-normalization",
            trees.make_imagenet,
            2,
            [
                "augment.resize=[36]",
                "pool.name=mpn",
                "pool.alpha=1.0",
                "pool.normalization=frobenius",
                "pool.normalize=epn",
            ],
        ),
        (
            "ablation-null_gradient",
            trees.make_imagenet,
            2,
            ["augment.resize=[36]", "pool.name=mpn", "pool.null_gradient=released"],
        ),
        (
            "ablation-postcomp",
            trees.make_imagenet,
            2,
            ["augment.resize=[36]", "pool.postcomp=false", "pool.normalize=bn"],
        ),
        ("ablation-prenorm", trees.make_imagenet, 2, ["augment.resize=[36]", "pool.prenorm=frobenius"]),
        ("pack-cub200", trees.make_folder, 4, ["augment.resize=[32]"]),
    ],
)
def test_protocol(name: str, make: Callable[[Path], Path], steps: int, settings: list[str], tmp_path: Path) -> None:
    result = small(name, make(tmp_path / "data"), tmp_path / "run", *settings)
    assert math.isfinite(result.metrics["loss"]) and 0 <= result.metrics["top1"] <= 1
    logged = [event for event in read_lines(tmp_path / "run" / "log.jsonl") if event["event"] == "step"]
    assert [event["step"] for event in logged] == list(range(1, steps + 1))
    assert all(math.isfinite(event["loss"]) for event in logged)


def test_inaturalist_s_answers_are_written_for_its_server(tmp_path: Path) -> None:
    from cli.runner import run

    root = trees.make_inat2018(tmp_path / "data", classes=4)
    name = "inat2018-resnet152_isqrt_12k-submission"
    result = small(name, root, tmp_path / "run", "augment.resize=[36]", "train.batch_size=4")
    assert result.metrics == {}  # the server alone knows the classes
    checkpoint, answers = tmp_path / "run" / "last.safetensors", tmp_path / "answers.csv"
    assert run("eval", checkpoint, "--submission", answers, "--workers", 0).exit_code == 0
    head, *rows = answers.read_text().splitlines()
    assert head == "id,predicted" and len(rows) == 8
    for number, row in enumerate(rows, start=17):  # 8 training and 8 validation images come first
        first, chosen = row.split(",")
        assert int(first) == number and len(set(chosen.split())) == 3 and set(chosen.split()) <= set("0123")


def test_fine_tuning_starts_from_what_was_pre_trained(tmp_path: Path) -> None:
    first = small(
        "imagenet-resnet50_isqrt_32k", trees.make_imagenet(tmp_path / "in"), tmp_path / "run", "augment.resize=[36]"
    )
    weights = f"init.weights={first.run / 'last.safetensors'}"
    recipe = read_recipe("finetune-resnet50_isqrt_32k_epn+cub", [*SMALL, weights])
    notes = " ".join(build_network(recipe, ["crow", "wren"]).notes)
    assert "features from" in notes and "pool from" in notes and "a new classifier" in notes
