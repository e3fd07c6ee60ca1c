"""Initial weights, and which of them are trained."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import covpool
from covpool.engine.training._build import build_network, freeze, set_training
from covpool.recipe._schema import Init, Model, Pool, Recipe

CLASSES = ["cat", "dog", "fox"]
BACKBONE = "test_resnet"


def recipe(weights: str | Path = "", *, model: Model | None = None, pool: str = "isqrt", **options: object) -> Recipe:
    return Recipe(
        model=Model(backbone=BACKBONE) if model is None else model,
        pool=Pool(name=pool, options={"reduce_to": 8, **options}),
        init=Init(weights=str(weights)),
    )


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "model.safetensors"
    torch.manual_seed(1)
    network = covpool.attach(BACKBONE, "isqrt", 3, reduce_to=8)
    covpool.save(network, path, class_names=CLASSES)
    return path


def loaded_parts(network: covpool.Network, path: Path) -> dict[str, bool]:
    """Which parts of a network are equal to those of a checkpoint."""
    source = covpool.load(path).state_dict()
    mine = network.state_dict()
    return {
        part: all(key in source and torch.equal(mine[key], source[key]) for key in mine if key.startswith(part))
        for part in ("features", "pool", "classifier")
    }


def test_a_checkpoint_with_the_same_classes_is_loaded_whole(checkpoint: Path) -> None:
    built = build_network(recipe(checkpoint), CLASSES)
    assert loaded_parts(built.network, checkpoint) == {"features": True, "pool": True, "classifier": True}
    assert any("classifier from" in note for note in built.notes)


@pytest.mark.parametrize("classes", [["cat", "dog"], ["cat", "dog", "owl"]])
def test_other_classes_get_a_new_classifier(checkpoint: Path, classes: list[str]) -> None:
    built = build_network(recipe(checkpoint), classes)
    assert loaded_parts(built.network, checkpoint) == {"features": True, "pool": True, "classifier": False}
    assert built.network.num_classes == len(classes) and "a new classifier" in built.notes


def test_another_pool_is_new(checkpoint: Path) -> None:
    """As for PreTr-GAP in the paper: the features of one network under another pool."""
    built = build_network(recipe(checkpoint, reduce_to=4), CLASSES)
    assert loaded_parts(built.network, checkpoint) == {"features": True, "pool": False, "classifier": False}


@pytest.mark.parametrize("pool", ["cbp", "fason", "kernel"])
def test_a_shorter_sketch_is_a_new_pool(pool: str, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    covpool.save(covpool.attach(BACKBONE, pool, 3, reduce_to=8, size=64), path)
    for size, same in ((64, True), (16, False)):
        built = build_network(recipe(path, pool=pool, size=size), CLASSES)
        assert loaded_parts(built.network, path) == {"features": True, "pool": same, "classifier": same}
        assert same == built.has_own_pool == (f"a new pool: the one in {path} is different" not in built.notes)


def test_epn_can_be_added_when_fine_tuning(checkpoint: Path) -> None:
    built = build_network(recipe(checkpoint, normalize="epn"), CLASSES)
    assert loaded_parts(built.network, checkpoint) == {"features": True, "pool": True, "classifier": True}


def test_a_recipe_without_a_network_trains_that_of_the_checkpoint(checkpoint: Path) -> None:
    built = build_network(recipe(checkpoint, model=Model()), ["a", "b"])
    assert loaded_parts(built.network, checkpoint) == {"features": True, "pool": True, "classifier": False}
    assert built.network.architecture is not None and built.network.architecture.num_classes == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pool": "bcnn"}, r"`pool.name` = 'bcnn' differs from .* set pool.name=isqrt, or name a model.backbone"),
        ({"reduce_to": 4}, r"`pool.reduce_to` = 4 differs from .* leave it out"),
        ({"normalize": "epn"}, r"`pool.normalize` = 'epn' differs from"),
    ],
)
def test_a_checkpoints_own_network_keeps_its_pool(checkpoint: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        build_network(recipe(checkpoint, model=Model(), **options), CLASSES)


def test_the_pool_of_a_named_network_in_a_checkpoint(tmp_path: Path) -> None:
    covpool.save(covpool.create_model("resnet18_isqrt_2k", 3), tmp_path / "m.safetensors")
    of_a_name = Recipe(init=Init(weights=str(tmp_path / "m.safetensors")))
    expected = covpool.load(tmp_path / "m.safetensors").architecture
    assert build_network(of_a_name, CLASSES).network.architecture == expected
    with pytest.raises(ValueError, match=r"`pool.name` = 'avg' differs from"):
        build_network(of_a_name.changed(pool=Pool(name="avg")), CLASSES)


def test_hidden_layers_of_a_head_are_kept(tmp_path: Path) -> None:
    covpool.save(covpool.attach(BACKBONE, "isqrt", 3, reduce_to=8, head_layers=[6]), tmp_path / "m.safetensors")
    made = build_network(recipe(tmp_path / "m.safetensors", model=Model(backbone=BACKBONE, head_layers=(6,))), ["a"])
    source = covpool.load(tmp_path / "m.safetensors").classifier.state_dict()
    mine = made.network.classifier.state_dict()
    assert torch.equal(mine["0.weight"], source["0.weight"]) and mine["3.weight"].shape == (1, 6)


def test_weights_of_a_plain_backbone(tmp_path: Path) -> None:
    import timm

    plain = timm.create_model(BACKBONE)
    torch.save(plain.state_dict(), tmp_path / "plain.pth")
    built = build_network(recipe(tmp_path / "plain.pth"), CLASSES)
    mine = built.network.state_dict()
    for name, value in plain.state_dict().items():
        if not name.startswith("fc."):
            assert torch.equal(mine[f"features.body.{name}"], value)


@pytest.mark.parametrize(("size", "resize"), [(None, 256), (320, 366)])
def test_inputs_that_a_recipe_leaves_out_are_the_backbones(size: int | None, resize: int) -> None:
    unset = recipe(model=Model(backbone="tf_efficientnet_lite0")).changed(augment={"size": size, "flip": False})
    found = build_network(unset, CLASSES).resolve_inputs(unset).augment
    assert (found.size, found.resize, found.mean, found.interpolation) == (
        size or 224,
        (resize,),
        (0.5,) * 3,
        "bicubic",
    )
    assert not found.flip


def test_inputs_of_a_checkpoint_are_those_it_was_trained_with(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    saved = {"size": 64, "resize": (80, 96), "mean": (0.1, 0.2, 0.3)}
    covpool.save(covpool.attach(BACKBONE, "isqrt", 3, reduce_to=8), path, preprocessing=saved)
    for size, resize in ((None, (80, 96)), (128, (160, 192))):
        unset = recipe(path).changed(augment={"size": size})
        found = build_network(unset, CLASSES).resolve_inputs(unset).augment
        assert (found.size, found.resize, found.mean) == (size or 64, resize, (0.1, 0.2, 0.3))


def test_another_normalization_than_that_of_the_weights_is_said(
    checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = covpool.models.input_settings(BACKBONE)
    for mean, lines in ((own.mean, 0), ((0.9, 0.9, 0.9), 1)):
        stated = recipe(checkpoint).changed(augment={"mean": mean})
        caplog.clear()
        assert build_network(stated, CLASSES).resolve_inputs(stated).augment.mean == mean
        assert len(caplog.records) == lines and caplog.text.count("`augment.mean` = [0.9, 0.9, 0.9]") == lines
    fresh = recipe().changed(augment={"mean": (0.9, 0.9, 0.9)})
    caplog.clear()
    build_network(fresh, CLASSES).resolve_inputs(fresh)
    assert not caplog.records


def test_none_and_blocks_by_name() -> None:
    built = build_network(recipe(model=Model(backbone="torchvision/resnet18", block="se"), reduce_to="none"), CLASSES)
    assert built.network.pool.out_features == 512 * 513 // 2
    assert "se" in dict(built.network.features.body.layer1[0].named_children())


def test_mistakes(tmp_path: Path, checkpoint: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file"):
        build_network(recipe("/no/such.pth"), CLASSES)
    with pytest.raises(ValueError, match=r"the features in .* do not match those of the recipe"):
        build_network(recipe(checkpoint, model=Model(backbone="torchvision/resnet18")), CLASSES)
    torch.save({}, tmp_path / "x.pth")
    with pytest.raises(ValueError, match=r"does not describe its network: name it"):
        build_network(recipe(tmp_path / "x.pth", model=Model()), CLASSES)
    with pytest.raises(ValueError, match=r"must be a covpool checkpoint for `model.name`"):
        build_network(recipe(tmp_path / "x.pth", model=Model(name="resnet18_isqrt_2k")), CLASSES)


@pytest.fixture
def network() -> covpool.Network:
    return covpool.attach(BACKBONE, "isqrt", 3, reduce_to=8)


def test_parts_are_frozen_by_whole_names(network: covpool.Network) -> None:
    freeze(network, ["features.body.layer1", "pool"])
    for name, parameter in network.named_parameters():
        assert parameter.requires_grad != name.startswith(("features.body.layer1.", "pool."))
    freeze(network, [])
    assert all(p.requires_grad for p in network.parameters())
    with pytest.raises(ValueError, match=r"must name parts of the network; got .*did you mean"):
        freeze(network, ["features.body.layer"])


def test_frozen_parts_do_not_change_at_all(network: covpool.Network) -> None:
    """The statistics of their batch norms do not change either."""
    freeze(network, ["features"])
    set_training(network, ["features"], freeze_norms=False)
    before = {name: buffer.clone() for name, buffer in network.named_buffers()}
    network(torch.randn(4, 3, 32, 32)).sum().backward()
    for name, buffer in network.named_buffers():
        assert torch.equal(buffer, before[name]) == name.startswith("features.")


def test_norms_alone_can_be_frozen(network: covpool.Network) -> None:
    set_training(network, [], freeze_norms=True)
    for module in network.modules():
        assert module.training != isinstance(module, nn.modules.batchnorm._BatchNorm)
