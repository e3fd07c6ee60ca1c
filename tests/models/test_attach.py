import copy
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn

import covpool
from covpool.models import LastStrideKept
from models.zoo import ALIKE, TIMM, TORCHVISION, Expected

ZOO = {**TIMM, **{f"torchvision/{name}": expected for name, expected in TORCHVISION.items()}}
# Constructors that compute with tensors, so not on the meta device; timm's not with torch 2.8.
BUILT_WITH_VALUES = ("torchvision/regnet_y_400mf", "regnetx_002")


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long if name in ALIKE else ()) for name in ZOO])
def test_every_backbone_gives_its_features_and_loses_its_last_stride(name: str) -> None:
    expected = ZOO[name]
    with torch.device("cpu" if name in BUILT_WITH_VALUES else "meta"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        network = covpool.attach(name, num_classes=7).eval()
    features = network.features
    assert (features.channels, features.layout, features.prefix) == (
        (expected.channels,),
        expected.layout,
        expected.prefix,
    )
    assert network.pool.layout == expected.layout
    said = [str(warning.message) for warning in caught if warning.category is LastStrideKept]
    assert len(said) == (expected.stride == "kept")
    assert all("larger images give more positions" in text or "another backbone gives" in text for text in said)
    assert (expected.stride in features.unstrided) == (expected.stride not in ("kept", "none"))
    with torch.no_grad():
        assert network(torch.empty(2, *features.image, device=next(network.parameters()).device)).shape == (2, 7)


@pytest.mark.parametrize("name", ["test_resnet", "torchvision/mobilenet_v3_small", "torchvision/vgg11"])
def test_the_map_grows_fourfold_and_only_with_the_stride_removed(name: str) -> None:
    with torch.device("meta"):
        modified, kept = covpool.attach(name), covpool.attach(name, keep_last_stride=True)
        x = torch.empty(1, 3, 128, 192)
    large, small = modified.eval().features(x).shape, kept.eval().features(x).shape
    assert large == (1, small[1], 2 * small[2], 2 * small[3])


@pytest.mark.parametrize(
    "make",
    [
        lambda: timm.create_model("resnet18d"),
        lambda: timm.create_model("mobilenetv3_small_050"),
        lambda: timm.create_model("test_vit"),
        lambda: torchvision.models.vgg11_bn(),
        lambda: torchvision.models.shufflenet_v2_x0_5(),
    ],
)
def test_an_object_and_its_weights_are_not_changed(make: Any) -> None:
    model = make().eval()
    before, text = copy.deepcopy(model.state_dict()), repr(model)
    x = torch.randn(1, 3, 160, 160)
    logits = model(x)
    network = covpool.attach(model, num_classes=3)
    assert repr(model) == text
    assert torch.equal(model(x), logits)
    kept = network.features.body.state_dict()
    assert kept
    assert all(torch.equal(value, before[key]) for key, value in kept.items())


@pytest.fixture
def mobilenet_v2(tmp_path: Path) -> Iterator[Path]:
    """The published weights where COVPOOL_WEIGHTS names their folder, else others in their place."""
    folder = os.environ.get("COVPOOL_WEIGHTS")
    published = Path(folder or tmp_path) / "mobilenet_v2-b0353104.pth"
    if not published.exists():
        torch.save(torchvision.models.mobilenet_v2().state_dict(), published)
    return published


def test_mobilenet_v2_keeps_its_features(mobilenet_v2: Path) -> None:
    original = torchvision.models.mobilenet_v2()
    original.load_state_dict(torch.load(mobilenet_v2, weights_only=True))
    network = covpool.attach("torchvision/mobilenet_v2", keep_last_stride=True, weights=mobilenet_v2).eval()
    x = torch.randn(2, 3, 96, 128)
    with torch.no_grad():
        assert torch.equal(network.forward_features(x), original.eval().features(x))
        assert network.pool.out_features == 256 * 257 // 2


def test_layers_after_the_pool_are_removed_and_named() -> None:
    network = covpool.attach("mobilenetv3_small_050", num_classes=3)
    assert network.features.removed == ("conv_head", "classifier")
    assert "removed: conv_head, classifier" in repr(network)
    assert "conv_head.weight" not in network.features.body.state_dict()


@pytest.mark.parametrize(
    ("pool", "width", "expected"),
    [("isqrt", "auto", 32896), ("avg", "auto", 512), ("isqrt", 64, 2080), ("cov", None, 512 * 513 // 2)],
)
def test_reduction(pool: str, width: Any, expected: int) -> None:
    with torch.device("meta"):
        assert covpool.attach("resnet18", pool, reduce_to=width).pool.out_features == expected
        assert covpool.attach("lcnet_035").pool.out_features == 176 * 177 // 2  # 176 channels need no reduction


def test_hidden_layers() -> None:
    with torch.device("meta"):
        network = covpool.attach("torchvision/vgg11", head_layers=(4096, 4096), num_classes=7)
    assert [type(m) for m in network.classifier] == [nn.Linear, nn.BatchNorm1d, nn.ReLU] * 2 + [nn.Linear]


def test_prefix_tokens_are_dropped_or_kept() -> None:
    model, x = timm.create_model("test_vit"), torch.randn(1, 3, 160, 160)
    dropped = covpool.attach(model).eval().forward_features(x)
    kept = covpool.attach(model, prefix_tokens="keep").eval().forward_features(x)
    assert dropped.shape == (1, 100, 64)
    assert torch.equal(kept[:, 1:], dropped)
    assert torch.equal(kept, model.eval().forward_features(x))


def test_what_cannot_be_pooled_is_refused() -> None:
    with torch.device("meta"):
        with pytest.raises(TypeError, match=r"CrossVit.*got list"):
            covpool.attach("crossvit_tiny_240")
        with pytest.raises(ValueError, match="single token"):
            covpool.attach("pit_ti_224")
        with pytest.raises(ValueError, match="prefix_tokens"):
            covpool.attach("test_vit", prefix_tokens="some")
        with pytest.raises(TypeError, match="did you mean 'iterations'"):
            covpool.attach("test_resnet", iteration=3)
        with pytest.raises(ValueError, match="choose one"):
            covpool.attach("test_resnet", pretrained=True, weights="file.pth")


def test_images_of_other_sizes_and_channels() -> None:
    network = covpool.attach("test_vit", backbone_options={"dynamic_img_size": True}, num_classes=3).eval()
    assert network(torch.randn(2, 3, 96, 64)).shape == (2, 3)
    gray = covpool.attach("test_resnet", backbone_options={"in_chans": 1}, num_classes=3).eval()
    assert gray(torch.randn(2, 1, 96, 64)).shape == (2, 3)
    own = nn.Sequential(nn.Conv2d(5, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))
    assert covpool.attach(own, num_classes=3, input_size=(20, 30))(torch.randn(2, 5, 20, 30)).shape == (2, 3)


@pytest.mark.parametrize("name", ["resnet18", "torchvision/resnet18"])
def test_several_levels_feed_one_pool(name: str) -> None:
    network = covpool.attach(name, "cross_cov", 3, levels=("layer3", "layer4"), reduce_to=8).eval()
    x = torch.randn(2, 3, 64, 96)
    third, fourth = network.forward_features(x)
    assert third.shape == (2, 256, 4, 6)
    assert fourth.shape == (2, 512, 4, 6)
    assert network.pool.in_features == (256, 512)
    assert network(x).shape == (2, 3)
    again = covpool.models.rebuild(network.architecture)
    again.load_state_dict(network.state_dict())
    assert torch.equal(again.eval()(x), network(x))


def test_two_backbones_feed_one_pool() -> None:
    network = covpool.attach(("test_resnet", "torchvision/resnet18"), "cross_cov", 3, reduce_to=8).eval()
    x = torch.randn(2, 3, 64, 64)
    assert len(network.forward_features(x)) == 2
    assert network(x).shape == (2, 3)
    assert covpool.models.rebuild(network.architecture).pool.in_features == network.pool.in_features
    with torch.device("meta"), pytest.raises(ValueError, match="layout"):
        covpool.attach(("test_resnet", "swin_tiny_patch4_window7_224"), "cross_cov", keep_last_stride=True)


LEVELS = {
    "torchvision/resnet18": ("layer3", "layer4"),
    "test_resnet": ("layer2", "layer3", "layer4"),
}


def as_tokens(x: Tensor) -> Tensor:
    return x.flatten(2).mT


def epn(z: Tensor) -> Tensor:
    z = z.sign() * z.abs().sqrt()
    return z / z.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("name", LEVELS)
def test_hypercolumns_of_levels_of_different_size(name: str) -> None:
    network = covpool.attach(
        name, "hihca", 3, levels=LEVELS[name], reduce_to=None, keep_last_stride=True, input_size=64, size=20
    )
    network = network.double().eval()
    maps = network.forward_features(torch.randn(2, 3, 64, 96, dtype=torch.float64))
    grid = maps[0].shape[2:]
    assert len({m.shape[2:] for m in maps}) == len(maps) > 1
    scaled = [0.5 * m for m in maps[:-1]] + [maps[-1]]
    column = as_tokens(torch.cat([nn.functional.interpolate(m, grid, mode="bilinear") for m in scaled], 1))
    u, v = network.pool.factors[0]
    torch.testing.assert_close(network.forward_pool(maps), epn(((column @ u) * (column @ v)).mean(1)))


@pytest.mark.parametrize("name", LEVELS)
def test_levels_pooled_each_on_its_own_grid(name: str) -> None:
    options = {"levels": LEVELS[name], "reduce_to": None, "keep_last_stride": True, "input_size": 64, "size": 20}
    network = covpool.attach(name, "hihca", 3, fusion="hed", **options).double().eval()
    maps = network.forward_features(torch.randn(2, 3, 64, 96, dtype=torch.float64))
    parts = []
    for level, scale, (u, v) in zip(maps, network.pool.scales, network.pool.factors, strict=True):
        x = scale * as_tokens(level)
        parts.append(((x @ u) * (x @ v)).mean(1))
    torch.testing.assert_close(network.forward_pool(maps), epn(torch.cat(parts, -1)))

    fason = covpool.attach(name, "fason", 3, **options).double().eval()
    z = fason.forward_pool(maps).split([n for m in maps for n in (m.shape[1], 20)], 1)
    for level, first, second in zip(maps, z[::2], z[1::2], strict=True):
        torch.testing.assert_close(first, level.mean((2, 3)))
        torch.testing.assert_close(second.norm(dim=1), torch.ones(2, dtype=torch.float64))


@pytest.mark.parametrize("pool", ["hihca", "fason"])
def test_levels_are_trained_and_rebuilt(pool: str) -> None:
    options = {"levels": ("layer3", "layer4"), "reduce_to": 8, "keep_last_stride": True, "input_size": 64, "size": 20}
    network = covpool.attach("test_resnet", pool, 3, **options)
    x = torch.randn(2, 3, 64, 96)
    network(x).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
    again = covpool.models.rebuild(network.architecture)
    again.load_state_dict(network.state_dict())
    assert torch.equal(again.eval()(x), network.eval()(x))


def test_the_published_levels_of_vgg16() -> None:
    """relu5_2 and relu5_3 for HIHCA, at 28 x 28 for images of 448; conv4 and conv5 for FASON."""
    with torch.device("meta"):
        x = torch.empty(1, 3, 448, 448)
        options = {"reduce_to": None, "keep_last_stride": True}
        network = covpool.attach("torchvision/vgg16", "hihca", 200, levels=("features.27", "features.29"), **options)
        assert [tuple(f.shape) for f in network.forward_features(x)] == [(1, 512, 28, 28)] * 2
        assert sum(p.numel() for p in network.pool.parameters()) == 2 * 1024 * 8192 + 2
        assert network(x).shape == (1, 200)
        network = covpool.attach("torchvision/vgg16", "fason", 47, levels=("features.22", "features.29"), **options)
        assert [tuple(f.shape) for f in network.forward_features(x)] == [(1, 512, 56, 56), (1, 512, 28, 28)]
        assert network.pool.out_features == 2 * (512 + 8192)
        assert network(x).shape == (1, 47)


@pytest.fixture(scope="module", params=["test_resnet", "torchvision/mobilenet_v3_small", "test_vit"])
def network(request: pytest.FixtureRequest) -> covpool.Network:
    return covpool.attach(request.param, num_classes=5, reduce_to=8)


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 3, 160, 160)


@pytest.mark.parametrize(
    "network",
    ["test_resnet", "test_vit", pytest.param("torchvision/mobilenet_v3_small", marks=pytest.mark.long)],
    indirect=True,
)
def test_compiled(network: covpool.Network, x: Tensor) -> None:
    torch.compiler.reset()
    compiled = torch.compile(network.eval(), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), network(x))


def test_channels_last(network: covpool.Network, x: Tensor) -> None:
    other = copy.deepcopy(network.eval()).to(memory_format=torch.channels_last)
    torch.testing.assert_close(other(x.to(memory_format=torch.channels_last)), network(x), rtol=1e-4, atol=1e-4)


def test_autocast(network: covpool.Network, x: Tensor) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        z = network.eval().forward_pool(network.forward_features(x))
        logits = network.forward_head(z)
    assert z.dtype == torch.float32
    torch.testing.assert_close(logits.float(), network(x), rtol=0.1, atol=0.1)


def test_every_parameter_learns_and_checkpointing_changes_nothing(network: covpool.Network, x: Tensor) -> None:
    def gradients(model: covpool.Network) -> list[Tensor | None]:
        model.zero_grad()
        model(x).square().sum().backward()
        return [p.grad for p in model.parameters()]

    expected = gradients(network.train())
    assert all(g is not None and g.isfinite().all() for g in expected)
    if "timm" in type(network.features.body).__module__:
        other = copy.deepcopy(network)
        other.set_grad_checkpointing()
        for g, reference in zip(gradients(other), expected, strict=True):
            torch.testing.assert_close(g, reference, rtol=1e-3, atol=1e-5)


def test_distributed(network: covpool.Network, x: Tensor, tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        parallel = nn.parallel.DistributedDataParallel(network.train())
        for _ in range(2):  # the second pass fails if a parameter was unused in the first
            parallel(x).sum().backward()
    finally:
        torch.distributed.destroy_process_group()


def test_expected_is_complete() -> None:
    assert len(TIMM) >= 40
    assert all(isinstance(expected, Expected) for expected in ZOO.values())
