"""Checkpoints of covpool 0.2.0, which did not remove the last stride of Swin: written here as that version did."""

import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import covpool
from covpool.io import read_checkpoint
from covpool.models import AttachedArchitecture, Network, rebuild

SWIN = "swin_tiny_patch4_window7_224"
OPTIONS = {"img_size": 64, "window_size": 2, "embed_dim": 8, "depths": [1, 1, 1, 1], "num_heads": [1, 1, 1, 1]}
ARCHITECTURE = {
    "kind": "attach",
    "backbone": SWIN,
    "pool": "isqrt",
    "num_classes": 3,
    "keep_last_stride": False,
    "reduce_to": 8,
    "head_layers": [],
    "head_norm": True,
    "levels": [],
    "prefix_tokens": "drop",
    "input_size": None,
    "backbone_options": OPTIONS,
    "pool_options": {},
}


def swin(**options: Any) -> Network:
    return covpool.attach(SWIN, "isqrt", 3, reduce_to=8, backbone_options=OPTIONS, **options).eval()


def write(path: Path, network: Network, architecture: dict[str, Any], form: int = 2) -> Path:
    key = "recipe" if form == 1 else "architecture"
    text = json.dumps({"format": form, key: architecture, "versions": {"covpool": "0.2.0"}})
    state = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    safetensors.torch.save_file(state, path, metadata={"covpool": text})
    return path


@pytest.mark.parametrize("form", [1, 2])
@torch.no_grad()
def test_an_old_swin_keeps_the_stride_it_was_trained_with(
    form: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trained, x = swin(keep_last_stride=True), torch.randn(2, 3, 64, 64)
    path = write(tmp_path / "old.safetensors", trained, ARCHITECTURE, form)
    with caplog.at_level(logging.WARNING):
        again = covpool.load(path)
    assert [record.getMessage() for record in caplog.records] == [
        f"{SWIN} keeps its last stride, with which it was trained by covpool 0.2.0"
    ]
    assert torch.equal(again(x), trained(x)) and not torch.equal(swin()(x), trained(x))
    covpool.save(again, tmp_path / "again.safetensors")
    assert torch.equal(covpool.load(tmp_path / "again.safetensors")(x), trained(x))


@torch.no_grad()
def test_a_new_swin_loads_without_its_stride(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trained, x = swin(), torch.randn(2, 3, 64, 64)
    covpool.save(trained, tmp_path / "new.safetensors")
    with caplog.at_level(logging.WARNING):
        again = covpool.load(tmp_path / "new.safetensors")
    assert not caplog.records and torch.equal(again(x), trained(x))
    found = read_checkpoint(tmp_path / "new.safetensors").architecture
    assert isinstance(found, AttachedArchitecture) and found.dense_form and found == trained.architecture


def test_a_dense_form_that_cannot_be_built_is_refused() -> None:
    network = covpool.attach("test_resnet", "isqrt", 3, reduce_to=8)
    assert isinstance(network.architecture, AttachedArchitecture) and network.architecture.dense_form is False
    with pytest.raises(ValueError, match="must have a dense form, with which it was saved"):
        rebuild(dataclasses.replace(network.architecture, dense_form=True))
