import pytest

import covpool
from cli.runner import refused, run


def test_a_pool() -> None:
    result = run("show", "isqrt")
    info = covpool.pool_info("isqrt")
    assert result.exit_code == 0
    for text in (info.paper, info.formula, info.size, info.cost, "iterations=5"):
        assert text in result.output


@pytest.mark.parametrize("name", [*covpool.list_pools(), *covpool.list_blocks()])
def test_every_option_is_explained(name: str) -> None:
    info = covpool.pool_info(name) if name in covpool.list_pools() else covpool.block_info(name)
    assert all(info.meanings[option] for option in info.options), info.meanings


def test_a_recipe() -> None:
    text = " ".join(run("show", "ablation-alpha").output.split())
    assert "pool.alpha=[0.1" in text, "not taken for markup"
    text = " ".join(run("show", "finetune+cub").output.split())
    assert "train.epochs 25 Number of epochs." in text and "covpool train finetune+cub --data FOLDER" in text
    assert "pool.reduce_kind linear" in text and "puts batch norm and ReLU after each" in text
    assert '"own" our choice' in text
    assert "did you mean 'finetune-avg'" in refused("show", "finetune-av")


@pytest.mark.parametrize("name", [*covpool.list_pools(), *covpool.list_blocks()])
def test_formulas_are_printed_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    info = covpool.pool_info(name) if name in covpool.list_pools() else covpool.block_info(name)
    result = run("show", name)
    assert result.exit_code == 0 and info.formula in result.output and info.paper in result.output


def test_a_block() -> None:
    result = run("show", "fb")
    info = covpool.block_info("fb")
    assert result.exit_code == 0
    for text in (
        info.paper,
        info.formula,
        info.place,
        info.parameters,
        "rank=20",
        'covpool.insert(timm.create_model("',
    ):
        assert text in result.output


def test_a_model_is_compared_with_the_paper() -> None:
    result = run("show", "resnet50_isqrt_32k", "--no-measure")
    assert result.exit_code == 0
    for text in ("56.93M", "56,929,832", "6.31 G", "6.311 G", "6.445 G", "32,896", "22.14 / 6.22", "not measured"):
        assert text in result.output


def test_a_model_without_row_in_the_paper_is_measured() -> None:
    result = run("show", "alexnet_isqrt_2k", "--batch", "2", "--device", "cpu")
    assert result.exit_code == 0
    assert "not measured" not in result.output and "cpu, batch 2" in result.output
    assert " ms" in result.output and " MiB" in result.output and "error" not in result.output


def test_an_unknown_name() -> None:
    assert "did you mean 'isqrt'" in refused("show", "isqt")
    assert "did you mean 'resnet50'" in refused("show", "resnet51")


def test_a_wrong_option() -> None:
    assert "`batch` must be a positive integer" in refused("show", "resnet18", "--batch", "0")
