import pytest

import covpool
from cli.runner import refused, run


def test_all_pools_blocks_and_networks_are_listed() -> None:
    result = run("list")
    assert result.exit_code == 0
    for name in (
        *covpool.list_pools(),
        *covpool.list_blocks(),
        "Blocks: covpool.insert",
        "alexnet",
        "vgg16_bn",
        "densenet201",
        "32k, 12k, 8k",
        "2k_4g",
    ):
        assert name in result.output


def test_a_listing_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines, recipes = (run("list", *options).output.splitlines() for options in ((), ("--recipes",)))
    assert max(map(len, [*lines, *recipes])) <= 80 and len(lines) <= 75


def test_models_are_printed_one_per_line() -> None:
    result = run("list", "--models", "resnet50_isqrt_*")
    assert result.output.split() == covpool.list_models("resnet50_isqrt_*")
    assert "no model matches" in refused("list", "--models", "lenet*")


def test_recipes_are_described() -> None:
    text = " ".join(run("list", "--recipes").output.split())
    assert "finetune-vgg16_bcnn" in text and "indoor67" in text
