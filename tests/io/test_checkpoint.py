"""Our checkpoints: the same model and the same outputs, bit for bit, or a clear word."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

import covpool
from covpool import Network, attach, create_pool, load, save
from covpool.io import is_checkpoint, read_checkpoint
from covpool.models import InputSettings


def images(size: int = 64) -> Tensor:
    return torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))


def shaken(model: Network) -> Network:
    """Statistics and norms off their initial values, as after training."""
    generator = torch.Generator().manual_seed(1)
    for name, tensor in model.state_dict().items():
        if tensor.ndim == 1:
            tensor.copy_(torch.rand(tensor.shape, generator=generator) + (0.5 if "var" in name else 0))
        elif tensor.ndim == 0:
            tensor.fill_(3)
    return model.eval()


def small(**options: object) -> Network:
    return shaken(attach("torchvision/resnet18", "isqrt", num_classes=5, reduce_to=16, **options))


def same(a: nn.Module, b: nn.Module) -> bool:
    """The same tensors under the same names, in dtype and value."""
    left, right = a.state_dict(), b.state_dict()
    return list(left) == list(right) and all(
        left[k].dtype == right[k].dtype and torch.equal(left[k], right[k]) for k in left
    )


MODELS = {
    "attach torchvision": lambda: small(iterations=3, normalize="bn"),
    "attach timm": lambda: attach("resnet10t", "gaussian", 4, solver="newton_schulz", reduce_to=(32, 8)),
    "attach a linear reduction": lambda: attach("test_resnet", "isqrt", 4, reduce_to=8, reduce_kind="linear"),
    "attach several levels of options": lambda: attach(
        "torchvision/alexnet", "cov", 4, reduce_to=8, head_layers=(16, 12), head_norm=False, keep_last_stride=True
    ),
    "attach vit": lambda: attach(
        "vit_tiny_patch16_224", "mpn", 4, reduce_to=8, backbone_options={"img_size": 64, "depth": 2}
    ),
    "paper's network": lambda: covpool.create_model("resnet18_isqrt_2k", num_classes=6, iterations=2),
}


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_load_gives_the_same_model_and_outputs(name: str, tmp_path: Path) -> None:
    model = shaken(MODELS[name]())
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    x = images()
    assert same(again, model) and not again.training
    assert torch.equal(again(x), model(x))
    assert again.architecture == model.architecture


@pytest.mark.parametrize("resize", [(256,), (256, 300), ()])
def test_a_file_keeps_how_the_weights_expect_images(resize: tuple[int, ...], tmp_path: Path) -> None:
    model = attach("torchvision/mobilenet_v2", "avg", 3)
    model.input_settings = InputSettings(224, resize)  # other ones than the name gives
    save(model, tmp_path / "model.safetensors")
    assert load(tmp_path / "model.safetensors").input_settings == model.input_settings


@torch.no_grad()
def test_a_file_loads_in_another_process(tmp_path: Path) -> None:
    model = small()
    save(model, tmp_path / "model.safetensors")
    code = "import sys, torch, covpool; torch.save(covpool.load(sys.argv[1])(torch.load(sys.argv[2])), sys.argv[3])"
    torch.save(images(), tmp_path / "x.pt")
    files = [str(tmp_path / name) for name in ("model.safetensors", "x.pt", "y.pt")]
    subprocess.run([sys.executable, "-c", code, *files], check=True)
    torch.testing.assert_close(torch.load(files[2]), model(images()), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_new_classifier_is_in_the_architecture(tmp_path: Path) -> None:
    model = small()
    model.reset_classifier(9)
    save(model, tmp_path / "model.safetensors")
    assert torch.equal(load(tmp_path / "model.safetensors")(images()), model(images()))


@torch.no_grad()
def test_dtype_and_memory_format_come_back(tmp_path: Path) -> None:
    model = small().to(torch.bfloat16).to(memory_format=torch.channels_last)
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert same(again, model)
    strides = [p.stride() for p in model.parameters()]
    assert [p.stride() for p in again.parameters()] == strides
    x = images().to(torch.bfloat16)
    assert torch.equal(again(x), model(x))


def test_what_stands_beside_the_weights(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model = small()
    names = ("a", "b", "c", "d", "e")
    save(model, path, class_names=names, preprocessing={"size": 64, "mean": [0, 0.5, 1]}, training={"epoch": 2})
    found = read_checkpoint(path)
    assert found.class_names == names
    assert found.preprocessing is not None and found.preprocessing.mean == (0, 0.5, 1)
    assert found.training is not None and found.training.epoch == 2
    assert found.architecture == model.architecture
    assert found.versions["torch"].startswith(torch.__version__.split("+")[0])
    assert {"covpool", "torchvision"} <= found.versions.keys()


# --- tensors that safetensors would refuse --------------------------------------------------------


class Odd(nn.Module):
    """Tied, expanded, transposed, sliced and empty tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, bias=False)
        self.second = nn.Conv2d(3, 8, 3, bias=False)
        self.second.weight = self.first.weight
        memory = torch.arange(64.0)
        self.register_buffer("left", memory[:16].view(4, 4).T)
        self.register_buffer("right", memory[8:24])
        self.register_buffer("ones", torch.ones(1).expand(3, 2))
        self.register_buffer("nothing", torch.empty(0, 3))
        self.register_buffer("flags", torch.tensor([True, False]))

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x) + self.second(x) + self.get_buffer("left").sum()


def by_hand() -> Network:
    return Network(Odd(), create_pool("isqrt", 8), nn.Linear(36, 3)).eval()


@torch.no_grad()
def test_tied_and_strided_tensors(tmp_path: Path) -> None:
    model = by_hand()
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors", backbone=by_hand())
    assert same(again, model)
    assert torch.equal(again(images()), model(images()))
    features = again.features
    assert isinstance(features, Odd) and features.first.weight is features.second.weight
    size = (tmp_path / "model.safetensors").stat().st_size
    assert size < 10_000, "no tensor drags the memory behind a view into the file"


# --- backbones given as objects -------------------------------------------------------------------


def tiny_classifier() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2)
    )


@torch.no_grad()
def test_attached_to_an_object(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "model.safetensors"
    model = shaken(attach(tiny_classifier(), "isqrt", 3, keep_last_stride=True, iterations=2))
    save(model, path)
    assert "backbone=..." in caplog.text and "pool=..." not in caplog.text
    assert torch.equal(load(path, backbone=tiny_classifier())(images()), model(images()))
    with pytest.raises(ValueError, match="give `backbone`"):
        load(path)
    with pytest.raises(ValueError, match="do not fit"):
        load(path, backbone=nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()))


def test_named_backbones_need_no_object_and_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        save(small(), tmp_path / "model.safetensors")
    assert not caplog.records
    with pytest.raises(ValueError, match="names its own"):
        load(tmp_path / "model.safetensors", backbone=tiny_classifier())


@torch.no_grad()
def test_attached_with_a_pool_object(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "model.safetensors"
    model = shaken(attach("test_resnet", create_pool("isqrt", 96, reduce_to=8), 3))
    save(model, path)
    assert "pool=..." in caplog.text and "backbone=..." not in caplog.text
    again = load(path, pool=create_pool("isqrt", 96, reduce_to=8))
    assert same(again, model) and torch.equal(again(images()), model(images()))
    with pytest.raises(ValueError, match="give `pool`"):
        load(path)
    with pytest.raises(ValueError, match="do not fit its architecture: of another shape"):
        load(path, pool=create_pool("isqrt", 96, reduce_to=4))


@pytest.mark.parametrize(
    ("backbone", "options"),
    [
        ("test_resnet", {"pretrained": True}),
        ("test_resnet", {"checkpoint_path": "evil.pth"}),
        ("test_resnet", {"pretrained_cfg": {"url": "http://127.0.0.1/evil.pth"}}),
        ("test_resnet", {"pretrained_cfg_overlay": {"file": "evil.pth"}}),
        ("test_resnet", {"cache_dir": "elsewhere"}),
        ("test_resnet", {"act_layer": "../evil"}),
        ("torchvision/resnet18", {"weights": "DEFAULT"}),
        ("torchvision/resnet18", {"weights": "evil.pth"}),
        ("hf-hub:someone/model", None),
        ("local-dir:evil", None),
    ],
)
def test_nothing_but_the_file_is_read(
    backbone: str, options: dict[str, object] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.safetensors"
    architecture = {"kind": "attach", "backbone": backbone, "pool": "cov", "num_classes": 3}
    text = json.dumps({"format": 2, "architecture": {**architecture, "backbone_options": options}})
    safetensors.torch.save_file({"a": torch.ones(1)}, path, metadata={"covpool": text})
    for module in ("timm.create_model", "torchvision.models.get_model"):
        monkeypatch.setattr(module, lambda *_, **__: pytest.fail("a library was asked to build the network"))
    with pytest.raises(covpool.CovpoolError, match="without other files or the network; it asks for the backbone"):
        load(path)


def test_options_that_the_backbone_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    architecture = {"kind": "attach", "backbone": "test_resnet", "pool": "cov", "num_classes": 3}
    text = json.dumps({"format": 2, "architecture": {**architecture, "backbone_options": {"img_size": 9}}})
    safetensors.torch.save_file({"a": torch.ones(1)}, path, metadata={"covpool": text})
    with pytest.raises(covpool.CovpoolError, match=r"cannot be built: .*img_size"):
        load(path)


def test_a_checkpoint_is_told_from_other_weights(tmp_path: Path) -> None:
    ours, bare, pickled = (tmp_path / name for name in ("a.safetensors", "b.safetensors", "c.pth"))
    save(by_hand(), ours)
    safetensors.torch.save_file({"a": torch.ones(1)}, bare)
    torch.save({"a": torch.ones(1)}, pickled)
    assert [is_checkpoint(path) for path in (ours, bare, pickled)] == [True, False, False]
    with pytest.raises(FileNotFoundError, match="there is no file"):
        is_checkpoint(tmp_path / "d.safetensors")


def test_put_together_by_hand(tmp_path: Path) -> None:
    save(by_hand(), tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="put together by hand"):
        load(tmp_path / "model.safetensors")


# --- failures -------------------------------------------------------------------------------------


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.safetensors"
    model = by_hand()
    save(model, path)
    before = path.read_bytes()

    def half(tensors: dict[str, Tensor], file: Path, metadata: dict[str, str]) -> None:
        file.write_bytes(before[: len(before) // 2])
        raise OSError("No space left on device")

    monkeypatch.setattr(safetensors.torch, "save_file", half)
    with pytest.raises(OSError, match="No space"):
        save(model, path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]


def test_other_models_and_metadata_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="covpool Network"):
        save(nn.Linear(2, 2), tmp_path / "model.safetensors")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="plain JSON"):
        save(by_hand(), tmp_path / "model.safetensors", preprocessing={"mean": torch.ones(3)})
    assert not list(tmp_path.iterdir())


def test_files_that_are_none_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load(path)
    with pytest.raises(IsADirectoryError, match="is a folder: name a checkpoint"):
        load(tmp_path)
    torch.save({"a": torch.ones(1)}, path)
    with pytest.raises(ValueError, match="import_checkpoint"):
        load(path)
    safetensors.torch.save_file({"a": torch.ones(1)}, path)
    with pytest.raises(ValueError, match="not written by covpool"):
        load(path)
    save(by_hand(), path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        load(path)


def test_a_file_of_a_later_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save(by_hand(), path)
    safetensors.torch.save_file({"a": torch.ones(1)}, path, metadata={"covpool": json.dumps({"format": 99})})
    with pytest.raises(ValueError, match="upgrade"):
        load(path)
