import json
from pathlib import Path

import onnx
import pytest
import torch

import covpool
from cli.runner import refused, run


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    options = {"img_size": 32, "patch_size": 8, "depth": 1}
    network = covpool.attach("vit_tiny_patch16_224", "isqrt", 2, reduce_to=8, backbone_options=options)
    covpool.save(network, tmp_path / "model.safetensors", class_names=["cat", "dog"])
    return tmp_path / "model.safetensors"


@torch.no_grad()
def test_pt2(checkpoint: Path) -> None:
    result = run("export", checkpoint, "--to", "pt2", "--size", 32)
    assert result.exit_code == 0 and "2 classes" in result.output
    assert "model.pt2" in result.output and "e-0" in result.output, "the file and its error are announced"
    x = torch.randn(3, 3, 32, 32)
    program = torch.export.load(checkpoint.with_suffix(".pt2")).module()
    assert torch.allclose(program(x), covpool.load(checkpoint)(x), atol=1e-4)


def test_onnx_keeps_the_class_names(checkpoint: Path, tmp_path: Path) -> None:
    result = run("export", checkpoint, "--size", 32, "--out", tmp_path / "other.onnx")
    assert result.exit_code == 0
    kept = json.loads(onnx.load(tmp_path / "other.onnx").metadata_props[0].value)
    assert kept["class_names"] == ["cat", "dog"]


def test_mistakes(checkpoint: Path, tmp_path: Path) -> None:
    assert "no file" in refused("export", tmp_path / "nowhere.safetensors")
    assert "did you mean 'onnx'" in refused("export", checkpoint, "--to", "onx")
    (tmp_path / "text.safetensors").write_text("hello")
    assert "not a whole safetensors file" in refused("export", tmp_path / "text.safetensors")
    torch.save({"a": torch.ones(1)}, tmp_path / "weights.pth")
    assert "covpool.import_checkpoint" in refused("export", tmp_path / "weights.pth")
    assert "positive integer" in refused("export", checkpoint, "--size", 0)
    assert not list(tmp_path.glob("*.onnx"))


@pytest.mark.parametrize("size", [(), ("--size", 32, "--size", 64)], ids=["the default sizes", "two sizes"])
def test_a_network_with_a_fixed_size_asks_for_it(size: tuple[object, ...], checkpoint: Path) -> None:
    result = run("export", checkpoint, "--to", "pt2", *size)
    assert result.exit_code == 2 and "if it takes one size only" in result.stderr


def test_an_equivalent_is_suggested_for_eigen_decompositions(tmp_path: Path) -> None:
    options = {"img_size": 32, "patch_size": 8, "depth": 1}
    network = covpool.attach("vit_tiny_patch16_224", "mpn", 2, reduce_to=8, backbone_options=options)
    covpool.save(network, tmp_path / "mpn.safetensors")
    result = run("export", tmp_path / "mpn.safetensors", "--size", 32)
    assert result.exit_code == 2 and "'isqrt' for 'mpn'" in result.stderr
