import re
from pathlib import Path

import pytest
import timm
import torch
import torchvision
from safetensors.torch import save_file

import covpool
from covpool.models._backbone import make_backbone
from covpool.models._weights import load_backbone_weights


def as_pth(state: dict[str, torch.Tensor], path: Path) -> Path:
    torch.save(state, path / "weights.pth")
    return path / "weights.pth"


def as_safetensors(state: dict[str, torch.Tensor], path: Path) -> Path:
    save_file(state, path / "weights.safetensors")
    return path / "weights.safetensors"


@pytest.mark.parametrize("write", [as_pth, as_safetensors])
@pytest.mark.parametrize("name", ["test_resnet", "torchvision/mobilenet_v3_small"])
def test_a_local_file_fills_the_backbone_bit_for_bit(name, write, tmp_path: Path) -> None:
    library, _, short = name.rpartition("/")
    make = torchvision.models.get_model if library else timm.create_model
    state = make(short, num_classes=7).state_dict()  # this classifier has another size, so it is not loaded
    network = covpool.attach(name, num_classes=3, weights=write(state, tmp_path))
    loaded = network.features.body.state_dict()
    assert loaded
    assert all(torch.equal(value, state[key]) for key, value in loaded.items())


def test_training_checkpoints_are_unwrapped(tmp_path: Path) -> None:
    state = torchvision.models.resnet18().state_dict()
    wrapped = {"epoch": 3, "state_dict": {f"module.{key}": value for key, value in state.items()}}
    backbone = make_backbone(torchvision.models.resnet18())
    load_backbone_weights(backbone, as_pth(wrapped, tmp_path))
    assert torch.equal(backbone.body.layer4[1].conv2.weight, state["layer4.1.conv2.weight"])


def test_old_files_are_read(tmp_path: Path) -> None:
    """torchvision's DenseNets are published with norm.1 for norm1, and without num_batches_tracked."""
    state = torchvision.models.densenet121().state_dict()
    old = {
        re.sub(r"(denselayer\d+\.(?:norm|conv))([12])\.", r"\1.\2.", key): value
        for key, value in state.items()
        if not key.endswith("num_batches_tracked")
    }
    assert "features.denseblock1.denselayer1.norm.1.weight" in old
    backbone = make_backbone(torchvision.models.densenet121())
    load_backbone_weights(backbone, as_pth(old, tmp_path))
    key = "features.denseblock4.denselayer16.conv2.weight"
    assert torch.equal(backbone.body.state_dict()[key], state[key])


def test_a_file_of_another_network_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    backbone = make_backbone(torchvision.models.resnet18())
    before = backbone.body.conv1.weight.clone()
    state = torchvision.models.resnet50().state_dict()
    del state["bn1.weight"]
    expected = r"does not fit ResNet: missing bn1\.weight; unknown layer1\.0\.conv3.*another shape layer1\.0\.conv1"
    with pytest.raises(ValueError, match=expected):
        load_backbone_weights(backbone, as_pth(state, tmp_path))
    assert torch.equal(backbone.body.conv1.weight, before)


def test_levels_leave_out_what_comes_later(tmp_path: Path) -> None:
    state = torchvision.models.vgg11().state_dict()
    state = {key: value for key, value in state.items() if not key.startswith("classifier")}
    backbone = make_backbone(torchvision.models.vgg11(), levels=("features.10",))
    load_backbone_weights(backbone, as_pth(state, tmp_path))
    assert torch.equal(backbone.body.state_dict()["features.8.weight"], state["features.8.weight"])


def test_code_in_a_file_is_not_run(tmp_path: Path) -> None:
    torch.save(torchvision.models.squeezenet1_1(), tmp_path / "model.pth")
    with pytest.raises(ValueError, match="must hold only tensors and plain values"):
        covpool.attach("torchvision/squeezenet1_1", weights=tmp_path / "model.pth")
    with pytest.raises(FileNotFoundError, match="no weights file"):
        covpool.attach("torchvision/squeezenet1_1", weights=tmp_path / "nowhere.pth")
    with pytest.raises(ValueError, match="one file per backbone, 1; got 2"):
        covpool.attach("test_resnet", weights=(tmp_path / "a", tmp_path / "b"))


def test_a_checkpoint_is_not_taken_for_weights_of_a_backbone(tmp_path: Path) -> None:
    path = tmp_path / "trained.safetensors"
    covpool.save(covpool.attach("test_resnet", "avg", 3), path)
    with pytest.raises(covpool.CovpoolError, match=r"is a checkpoint of covpool, .* init\.weights"):
        covpool.attach("test_resnet", "avg", 3, weights=path)
