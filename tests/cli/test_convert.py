from pathlib import Path

import pytest
import torch
import torchvision
from torch import Tensor

import covpool
from cli.runner import refused, run


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A release of fast-MPN-COV: torchvision's names, layer_reduce, fc."""
    state: dict[str, Tensor] = torchvision.models.resnet18(num_classes=7).state_dict()
    state["fc.weight"] = torch.randn(7, 16 * 17 // 2)
    state["layer_reduce.weight"] = torch.randn(16, 512, 1, 1) / 16
    norm = {"weight": torch.ones(16), "bias": torch.zeros(16)}
    norm |= {"running_mean": torch.zeros(16), "running_var": torch.ones(16)}
    path = tmp_path / "foreign.pth.tar"
    torch.save(state | {f"layer_reduce_bn.{key}": value for key, value in norm.items()}, path)
    return path


def test_round_trip(foreign: Path) -> None:
    result = run("convert", foreign)
    ours = foreign.with_name("foreign.safetensors")
    assert result.exit_code == 0
    assert (
        "A / G: resnet18" in result.output and "last stride removed" in result.output and "7 classes" in result.output
    )
    assert ours.name in result.output
    x = torch.randn(2, 3, 64, 64)
    assert torch.equal(covpool.load(ours)(x), covpool.import_checkpoint(foreign)(x))
    assert "already" in refused("convert", foreign), "nothing is overwritten unasked"
    assert run("convert", foreign, "--out", ours).exit_code == 0


def test_options(foreign: Path, tmp_path: Path) -> None:
    out = tmp_path / "ours.safetensors"
    result = run("convert", foreign, "--out", out, "--num-classes", 3, "--iterations", 3, "--keep-last-stride")
    assert result.exit_code == 0 and "last stride kept" in result.output and "3 classes" in result.output
    network = covpool.load(out)
    assert network.num_classes == 3 and network.architecture is not None
    assert network.architecture.keep_last_stride and network.architecture.pool_options["iterations"] == 3


def test_mistakes(foreign: Path, tmp_path: Path) -> None:
    assert "no weights file" in refused("convert", tmp_path / "nowhere.pth")
    assert "overwrite its own input" in refused("convert", foreign, "--out", foreign)
    assert "does not exist" in refused("convert", foreign, "--out", tmp_path / "nowhere" / "ours.safetensors")
    (tmp_path / "text.pth").write_text("hello")
    assert "damaged" in refused("convert", tmp_path / "text.pth")
    torch.save({"stem.weight": torch.ones(1)}, tmp_path / "other.pth")
    assert "stem.weight" in refused("convert", tmp_path / "other.pth")
