"""The frozen backbone: taps, sizes and feature maps."""

from pathlib import Path
from typing import Any

import pytest
import torch

import trees
from covpool.data import Data, Images
from covpool.data.pipeline import eval_transform
from covpool.data.sets import open_data
from covpool.models import InputSettings, make_features
from covpool.studies.fit import Fit
from covpool.studies.fit import _features as module
from covpool.studies.fit._features import TappedBackbone

CPU = torch.device("cpu")


def tapped(root: Path, **settings: Any) -> TappedBackbone:
    small = {"backbone": "test_resnet", "pretrained": False, "maps": "fp32", "batch_size": 4, **settings}
    return TappedBackbone(Fit(**{"data": Data(root=str(root), workers=0), **small}), CPU)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return trees.make_flat(tmp_path / "data", classes=2, per_class=5)


def test_auto_tries_two_taps_and_two_sizes(root: Path) -> None:
    backbone = tapped(root)
    assert [tap.level for tap in backbone.taps] == ["", "layer3.0"] and backbone.sizes == [160, 224]
    assert backbone.augment(224).resize == (round(224 * backbone.inputs.resize[0] / 160),)


def test_images_are_prepared_as_the_built_backbone_expects_them(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = InputSettings(size=64, resize=(80,))
    built = make_features("test_resnet", keep_last_stride=True)
    built.input_settings = own  # as weights from a package set it, whose file the name does not tell
    monkeypatch.setattr(module, "make_features", lambda *_, **__: built)
    assert tapped(root, pool="avg").augment(128).resize == (160,)


def test_named_parts_are_taken_as_they_are(root: Path) -> None:
    backbone = tapped(root, pool="isqrt", size=[64, 96], level=["last", "layer2"])
    assert [tap.level for tap in backbone.taps] == ["", "layer2"] and backbone.sizes == [64, 96]
    assert [tap.level for tap in tapped(root, pool="isqrt").taps] == [""] and tapped(root, pool="avg").sizes == [160]
    with pytest.raises(ValueError, match="has no module 'layer9'"):
        tapped(root, level="layer9")


def test_a_backbone_for_one_size_is_tried_at_that_size(root: Path) -> None:
    backbone = tapped(root, backbone="vit_tiny_patch16_224")
    assert backbone.sizes == [224] and "does not accept images of 320 px" in backbone.notes[0]


def test_a_block_that_cannot_be_cut_out_is_left_out(root: Path) -> None:
    backbone = tapped(root, backbone="test_vit")
    assert [tap.level for tap in backbone.taps] == [""] and "blocks.4 is left out" in backbone.notes[0]


@pytest.mark.parametrize(("name", "size"), [("test_resnet", 160), ("vit_tiny_patch16_224", 224)])
def test_one_pass_gives_the_features_of_all_taps(root: Path, name: str, size: int) -> None:
    backbone = tapped(root, backbone=name)
    images = open_data(Data(root=str(root))).train
    maps = backbone.compute(images, size, backbone.taps, lambda *_: None)
    level = backbone.taps[1].level
    cut = make_features(name, keep_last_stride=True, levels=[level]).eval()
    state = backbone.features.state_dict()
    cut.load_state_dict({key: state[key] for key in cut.state_dict()})
    transform = eval_transform(backbone.augment(size))
    x = torch.stack([transform(images.load(i)) for i in range(len(images))])
    with torch.no_grad():
        expected = torch.cat([cut(x)[0], cut(x.flip(-1))[0]])
        last = torch.cat([backbone.features(x), backbone.features(x.flip(-1))])
    torch.testing.assert_close(maps[level].features, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(maps[""].features, last, atol=1e-4, rtol=1e-4)
    assert maps[level].targets.tolist() == images.targets


def test_a_cache_keeps_the_feature_maps(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = open_data(Data(root=str(root))).train
    settings: dict[str, Any] = {"cache": str(tmp_path / "cache"), "size": 64}
    backbone = tapped(root, **settings)
    first = backbone.compute(images, 64, backbone.taps, lambda *_: None)
    monkeypatch.setattr(module, "compute_maps", None)
    again = tapped(root, **settings).compute(images, 64, backbone.taps, lambda *_: None)
    assert all(torch.equal(first[level].features, again[level].features) for level in first)
    others = Images(images.paths, [1 - target for target in images.targets], images.classes)
    with pytest.raises(TypeError):  # other classes of the same images
        tapped(root, **settings).compute(others, 64, backbone.taps, lambda *_: None)
    with pytest.raises(TypeError):  # other weights are computed anew
        tapped(root, seed=1, **settings).compute(images, 64, backbone.taps, lambda *_: None)


def test_images_that_are_left_out_are_counted(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    images = open_data(Data(root=str(root))).train
    Path(images.paths[0]).write_bytes(b"no image")
    backbone = tapped(root, data=Data(root=str(root), workers=0, broken="skip"), size=64)
    backbone.compute(images, 64, backbone.taps, lambda *_: None)
    (record,) = caplog.records
    assert f"1 of {len(images)} training images cannot be read and are left out" in record.getMessage()
