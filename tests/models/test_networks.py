import pytest
import torch
from torch import nn

import covpool
from covpool.models._networks import BASES, POOLS, pool_of, representation_of, split_name
from models.tables import COUNTS, each_design

# parameters that a compact representation adds to ResNet-50, in millions, from the paper's table
COMPACT = {"32k": 31.373, "32k_512": 32.029, "8k_direct": 6.470, "8k_512": 7.323, "2k_direct": 0.163, "2k": 0.573}
GROUPED = {"2k_1g": 18.026, "2k_2g": 9.572, "2k_4g": 5.345}


def count(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def build(name: str, **options: object) -> covpool.Network:
    with torch.device("meta"):
        return covpool.create_model(name, **options)


@pytest.mark.parametrize("name", each_design(COUNTS))
def test_parameters_to_the_last_digit(name: str) -> None:
    assert count(build(name)) == COUNTS[name]


@pytest.mark.parametrize(("size", "extra"), {**COMPACT, **GROUPED}.items())
def test_parameters_of_compact_representations(size: str, extra: float) -> None:
    name = f"resnet50_isqrt_{size}"
    with torch.device("meta"):
        pool = covpool.create_pool(pool_of(name), 2048, **representation_of(name))
    classifier = 1000 * (pool.out_features - 2048)  # weights beyond those of ResNet-50's own classifier
    assert f"{(count(pool) + classifier) / 1e6:.3f}" == f"{extra:.3f}"


@pytest.mark.parametrize(
    ("name", "length"),
    [
        ("resnet18_mpn_8k", 8_256),
        ("resnet18_isqrt_2k", 2_080),
        ("resnet50_isqrt_2k_4g", 2_048),
        ("resnet18_isqrt_12k", 12_880),
        ("alexnet_gaussian_32k", 33_153),
        ("vgg_m_cov_8k", 8_256),
        ("alexnet", 9_216),
        ("vgg16", 25_088),
        ("resnet18_modified", 512),
    ],
)
def test_representation(name: str, length: int) -> None:
    assert build(name).pool.out_features == length


@pytest.mark.parametrize("base", BASES)
def test_the_pool_of_every_listed_name_can_be_created(base: str) -> None:
    names = [name for name in covpool.list_models(f"{base}_*") if split_name(name)[0] == base]
    assert len(names) > 15
    for name in names:
        if pool_of(name) in POOLS:
            with torch.device("meta"):
                pool = covpool.create_pool(pool_of(name), BASES[base].channels, **representation_of(name))
            assert pool.out_features > 2000


@pytest.mark.long
@pytest.mark.parametrize("name", covpool.list_models())
def test_every_listed_name_can_be_created(name: str) -> None:
    assert build(name).num_classes == 1000


@pytest.mark.parametrize("base", each_design(BASES, "densenet201"))
def test_the_three_arms_of_every_network(base: str) -> None:
    about = BASES[base]
    x = torch.empty(2, 3, about.image, about.image, device="meta")
    original, modified, pooled = (
        build(f"{base}{arm}", num_classes=9).eval() for arm in ("", "_modified", "_isqrt_32k")
    )
    assert {tuple(network(x).shape) for network in (original, modified, pooled)} == {(2, 9)}
    assert count(original) == count(modified)
    side = 13 if base in ("alexnet", "vgg_f", "vgg_m") else 14
    assert pooled.features(x).shape == (2, about.channels, side, side)
    assert len(pooled.pool.reduce[0].convolutions) == (about.channels > 256)
    if about.grid is None:
        assert modified.features(x).shape == pooled.features(x).shape
        assert isinstance(pooled.classifier, nn.Linear)
    else:
        assert modified.features(x).shape == original.features(x).shape == (2, about.channels, about.grid, about.grid)
        kinds = [nn.Linear, nn.ReLU, nn.Dropout] if base == "vgg16_bn" else [nn.Linear, nn.BatchNorm1d, nn.ReLU]
        assert [type(m) for m in pooled.classifier] == kinds * 2 + [nn.Linear]


def test_the_original_is_torchvision_s_network() -> None:
    torchvision = pytest.importorskip("torchvision")
    x = torch.randn(2, 3, 64, 64)
    for name, end in (("resnet18", "fc"), ("vgg16", "classifier"), ("densenet201", "classifier")):
        reference = torchvision.models.get_model(name, num_classes=5).eval()
        network = build(name, num_classes=5).eval()
        state = reference.state_dict()
        renamed = {
            key.replace(end, "classifier", 1) if key.startswith(f"{end}.") else f"features.body.{key}": value
            for key, value in state.items()
        }
        network.load_state_dict(renamed, assign=True)
        with torch.no_grad():
            torch.testing.assert_close(network(x), reference(x))


def test_options_of_the_pool() -> None:
    assert build("resnet18_isqrt_2k", iterations=2).pool.options["iterations"] == 2
    with pytest.raises(TypeError, match="no option 'alpha'"):
        build("resnet18_isqrt_2k", alpha=2)


def test_names() -> None:
    names = covpool.list_models()
    assert len(names) == len(set(names))
    assert "resnet34_isqrt_8k_512" not in names  # 512 channels are not reduced by a step to 512
    assert covpool.list_models("alexnet_isqrt_*") == [f"alexnet_isqrt_{size}" for size in ("32k", "12k", "8k", "2k")]
    assert split_name("resnet50_modified") == ("resnet50", "modified")
    with pytest.raises(ValueError, match="did you mean 'resnet50_isqrt_32k'"):
        covpool.create_model("resnet50_isqrt32k")
