"""A checkpoint runs no code, opens no connection, reads no other file and takes no memory beyond its weights."""

import json
import os
import pickle
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import timm
import torch

import covpool
from covpool.io import import_checkpoint, load, read_checkpoint, save


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[Path]:
    """The folder that an executed payload makes."""
    yield tmp_path / "executed"
    assert not (tmp_path / "executed").exists()


@pytest.fixture
def address() -> Iterator[str]:
    """The address of a listening socket; the test fails if anything connects to it."""
    connected = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)

        def wait() -> None:
            try:
                server.accept()[0].close()
            except OSError:  # closed, nobody came
                return
            connected.set()

        listener = threading.Thread(target=wait, daemon=True)
        listener.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/evil.pth"
        server.shutdown(socket.SHUT_RDWR)
    listener.join(5)
    assert not connected.is_set(), "a request was sent"


ATTACHED = {"kind": "attach", "backbone": "test_resnet", "pool": "cov"}
NAMED = {"kind": "model", "name": "resnet18_isqrt_2k"}


def write(path: Path, architecture: dict[str, str] = ATTACHED, **fields: Any) -> Path:
    """A checkpoint file with weights that fit nothing."""
    text = json.dumps({"format": 2, "architecture": {**architecture, "num_classes": 3, **fields}})
    safetensors.torch.save_file({"a": torch.ones(1)}, path, metadata={"covpool": text})
    return path


def test_the_payload_and_the_socket_are_live(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Payload(tmp_path / "executed")))
    assert (tmp_path / "executed").is_dir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
        server.accept()[0].close()


@pytest.mark.parametrize("option", ["checkpoint_path", "pretrained_cfg", "pretrained_cfg_overlay", "weights"])
def test_no_pickle_named_by_a_checkpoint_is_read(option: str, tmp_path: Path, mark: Path) -> None:
    evil = tmp_path / "evil.pth"
    evil.write_bytes(pickle.dumps(Payload(mark)))
    value = {"file": str(evil)} if option.startswith("pretrained") else str(evil)
    path = write(tmp_path / "model.safetensors", backbone_options={"pretrained": True, option: value})
    with pytest.raises(covpool.CovpoolError, match="without other files or the network"):
        load(path)


@pytest.mark.parametrize("backbone", ["test_resnet", "torchvision/resnet18", "hf-hub:evil/model", "local-dir:evil"])
def test_no_request_is_sent(backbone: str, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    options = {"pretrained": True, "pretrained_cfg": {"url": address}, "weights": address}
    path = write(tmp_path / "model.safetensors", backbone=backbone, backbone_options=options)
    with pytest.raises(covpool.CovpoolError, match="without other files or the network"):
        load(path)


@pytest.mark.parametrize("architecture", [ATTACHED, NAMED])
@pytest.mark.parametrize("option", ["weights", "pretrained"])
def test_options_of_a_pool_name_no_weights(
    option: str, architecture: Any, tmp_path: Path, mark: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    monkeypatch.setattr("covpool._files.torch.load", lambda *_, **__: pytest.fail("another file was read"))
    torch.save({"w": Payload(mark)}, tmp_path / "evil.pth")
    value = str(tmp_path / "evil.pth") if option == "weights" else True
    path = write(tmp_path / "model.safetensors", architecture, pool_options={option: value})
    with pytest.raises(covpool.CovpoolError, match=f"`pool_options` must be options of a pool; got {option}"):
        load(path)


def test_pickles_given_as_weights_are_not_run(tmp_path: Path, mark: Path) -> None:
    for name, contents in (("a.pth", Payload(mark)), ("b.pth", {"state_dict": {"w": Payload(mark)}})):
        torch.save(contents, tmp_path / name)
        for read in (import_checkpoint, lambda path: covpool.attach("test_resnet", "cov", 3, weights=path)):
            with pytest.raises(covpool.CovpoolError, match="must hold only tensors and plain values"):
                read(tmp_path / name)
    (tmp_path / "c.safetensors").write_bytes(pickle.dumps(Payload(mark)))
    with pytest.raises(covpool.CovpoolError, match="is not a whole safetensors file"):
        load(tmp_path / "c.safetensors")


def test_the_oldest_supported_timm_does_not_run_pickles(tmp_path: Path, mark: Path) -> None:
    torch.save({"w": Payload(mark)}, tmp_path / "evil.pth")
    with pytest.raises(Exception, match="weights_only"):
        timm.create_model("test_resnet", checkpoint_path=str(tmp_path / "evil.pth"))


def test_a_checkpoint_imports_no_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covpool._registry._load_entry_points", lambda: pytest.fail("plugins were imported"))
    with pytest.raises(covpool.CovpoolError, match="unknown pool 'someones'"):
        load(write(tmp_path / "model.safetensors", pool="someones"))


@pytest.mark.parametrize(
    "fields",
    [
        *({"num_classes": 900_000}, {"reduce_to": 900_000}, {"head_layers": [900_000]}),
        *({"pool_options": {"iterations": 900_000}}, {"backbone_options": {"img_size": [32, 900_000]}}),
    ],
)
def test_layers_that_the_file_does_not_hold_take_no_memory(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "model.safetensors", **fields)
    monkeypatch.setattr("covpool.io._checkpoint.rebuild", lambda *_, **__: pytest.fail("the network was built"))
    with pytest.raises(covpool.CovpoolError, match="900000, and no tensor in the file has more than 1 rows"):
        load(path)


@pytest.mark.parametrize(
    "fields",
    [
        {"pool": "isqrt", "reduce_to": 1000, "num_classes": 4000},  # 8 GB in the classifier
        {"backbone": "test_vit", "backbone_options": {"depth": 4000}},  # minutes to build
    ],
)
def test_a_network_larger_than_its_file_is_not_built(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled: list[int] = []
    uniform = torch.nn.init.kaiming_uniform_
    monkeypatch.setattr("torch.nn.init.kaiming_uniform_", lambda w, *a, **k: filled.append(w.numel()) or uniform(w))
    with pytest.raises(covpool.CovpoolError, match="cannot be built: it has more weights than the file"):
        load(write(tmp_path / "model.safetensors", **fields))
    assert sum(filled) < 2**28


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float8_e4m3fn, torch.complex64])
def test_weights_of_another_kind_are_refused(dtype: torch.dtype, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model = covpool.attach("test_resnet", "cov", 3, reduce_to=4)
    save(model, path)
    metadata = {"covpool": safetensors.safe_open(path, "pt").metadata()["covpool"]}
    tensors = safetensors.torch.load_file(path)
    try:
        safetensors.torch.save_file(tensors | {"classifier.bias": torch.ones(3).to(dtype)}, path, metadata=metadata)
    except KeyError:
        pytest.skip(f"this safetensors does not write {dtype}")
    assert read_checkpoint(path).architecture == model.architecture
    with pytest.raises(covpool.CovpoolError, match=r"do not fit its architecture: classifier.bias is torch\."):
        load(path)
