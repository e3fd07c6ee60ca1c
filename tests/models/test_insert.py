import copy
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import timm
import timm.models.resnet
import torch
import torchvision
import torchvision.models.resnet
from timm.layers.cbam import CbamModule
from torch import Tensor, nn

import covpool
from covpool.models._by_name import classifier_by_name

# Parameters of SE and CBAM, by hand from their papers
COUNTS = {("resnet50", "se"): 28_088_024, ("resnet101", "se"): 49_326_872}
COUNTS |= {("resnet50", "cbam"): 28_089_624, ("resnet101", "cbam"): 49_330_172}
COUNTS |= {("resnet50", "sort"): 25_557_032, ("resnet101", "sort"): 44_549_160}
COUNTS |= {("resnet50", "fb"): 25_557_032 + 40_960_000, ("resnet101", "fb"): 44_549_160 + 40_960_000}


def small_timm(**options: Any) -> nn.Module:
    resnet = timm.models.resnet
    return resnet.ResNet(resnet.Bottleneck, (1, 1, 1, 1), num_classes=2, base_width=8, **options)


def small_torchvision() -> nn.Module:
    resnet = torchvision.models.resnet
    return resnet.ResNet(resnet.Bottleneck, [1, 1, 1, 1], num_classes=2, width_per_group=8)


SMALL: dict[str, Callable[[], nn.Module]] = {"timm": small_timm, "torchvision": small_torchvision}


def shaken(model: nn.Module) -> nn.Module:
    """In float64, with no parameter or statistic at a special value."""
    torch.manual_seed(0)
    for key, tensor in model.double().state_dict().items():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand_like(tensor) + 0.5 if "var" in key else torch.randn_like(tensor) * 0.2)
    return model.eval()


def image() -> Tensor:
    return torch.randn(2, 3, 32, 48, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("name", "block"), COUNTS)
@pytest.mark.parametrize("library", ["", "torchvision/"])
def test_parameters_to_the_last_digit(name: str, block: str, library: str) -> None:
    with torch.device("meta"):
        model = classifier_by_name(f"{library}{name}+{block}")
    assert sum(p.numel() for p in model.parameters()) == COUNTS[name, block]


# --- what comes out, against networks that have the block by construction, or written out ---------


@torch.no_grad()
@pytest.mark.parametrize("library", SMALL)
@pytest.mark.parametrize(
    ("block", "layer"), [("se", "se"), ("cbam", partial(CbamModule, rd_ratio=1 / 16, mlp_bias=True))]
)
def test_gates_stand_where_timm_builds_them(library: str, block: str, layer: Any) -> None:
    reference = shaken(small_timm(block_args={"attn_layer": layer}))
    model = covpool.insert(SMALL[library](), block).double().eval()
    model.load_state_dict({key.replace(".se.", f".{block}."): value for key, value in reference.state_dict().items()})
    torch.testing.assert_close(model(image()), reference(image()))


@torch.no_grad()
@pytest.mark.parametrize("library", SMALL)
def test_an_open_gate_leaves_the_network_as_it_was(library: str) -> None:
    plain = shaken(SMALL[library]())
    model = covpool.insert(plain, "se")
    assert not torch.equal(model(image()), plain(image()))
    for name, parameter in model.named_parameters():
        if name.endswith("se.fc2.bias"):
            parameter.fill_(torch.inf)
    assert torch.equal(model(image()), plain(image()))


def by_hand(model: nn.Module, x: Tensor, merge: Callable[[Tensor, Tensor], Tensor], last: Any = torch.relu) -> Tensor:
    """The last feature map of a small ResNet, from its tensors alone."""
    state = model.state_dict()

    def conv_norm(x: Tensor, conv: str, norm: str, stride: int = 1) -> Tensor:
        weight = state[f"{conv}.weight"]
        x = nn.functional.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        mean, var, scale, shift = (state[f"{norm}.{k}"] for k in ("running_mean", "running_var", "weight", "bias"))
        return (x - mean[:, None, None]) * (scale / (var + 1e-5).sqrt())[:, None, None] + shift[:, None, None]

    x = nn.functional.max_pool2d(conv_norm(x, "conv1", "bn1", 2).relu(), 3, 2, 1)
    for i in range(1, 5):
        at, stride = f"layer{i}.0", 1 if i == 1 else 2
        y = conv_norm(x, f"{at}.conv1", f"{at}.bn1").relu()
        y = conv_norm(y, f"{at}.conv2", f"{at}.bn2", stride).relu()
        y = conv_norm(y, f"{at}.conv3", f"{at}.bn3")
        y = merge(conv_norm(x, f"{at}.downsample.0", f"{at}.downsample.1", stride), y)
        x = last(y) if i == 4 else y.relu()
    return x


@torch.no_grad()
@pytest.mark.parametrize("library", SMALL)
@pytest.mark.parametrize("root", [True, False])
def test_sort_takes_the_place_of_the_addition(library: str, root: bool) -> None:
    def merge(a: Tensor, b: Tensor) -> Tensor:
        product = a.clamp(min=0) * b.clamp(min=0)
        return a + b + ((product + 0.04).sqrt() if root else product)

    model = covpool.insert(shaken(SMALL[library]()), "sort", tau=0.04, root=root)
    features = by_hand(model, image(), merge).mean((2, 3))
    torch.testing.assert_close(model(image()), features @ model.fc.weight.T + model.fc.bias)


@torch.no_grad()
@pytest.mark.parametrize("library", SMALL)
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_fb_scores_every_position_and_averages(library: str, activation: str) -> None:
    plain = shaken(SMALL[library]())
    model = covpool.insert(plain, "fb", rank=3, activation=activation, self_terms=False)
    assert model.fc.weight is plain.fc.weight and model.fc.bias is plain.fc.bias
    x = by_hand(model, image(), torch.add, getattr(torch, activation))
    pairs = torch.einsum("okc,okd->ocd", model.fc.factors, model.fc.factors)
    pairs = pairs * (1 - torch.eye(2048))
    scores = torch.einsum("bchw,oc->bohw", x, plain.fc.weight) + plain.fc.bias[:, None, None]
    scores = scores + torch.einsum("bchw,ocd,bdhw->bohw", x, pairs, x)
    torch.testing.assert_close(model(image()), scores.mean((2, 3)))


@torch.no_grad()
@pytest.mark.parametrize("library", SMALL)
def test_tanh_takes_the_place_of_the_last_activation_alone(library: str) -> None:
    model = covpool.insert(shaken(SMALL[library]()), "tanh")
    features = by_hand(model, image(), torch.add, torch.tanh).mean((2, 3))
    torch.testing.assert_close(model(image()), features @ model.fc.weight.T + model.fc.bias)


@torch.no_grad()
def test_tanh_in_a_pre_activation_network_comes_after_its_last_norm() -> None:
    plain = shaken(timm.create_model("resnetv2_18", num_classes=3))
    model = covpool.insert(plain, "tanh")
    norm, x = plain.norm, plain.stages(plain.stem(image()))
    normed = torch.nn.functional.batch_norm(
        x, norm.running_mean, norm.running_var, norm.weight, norm.bias, False, 0.0, norm.eps
    )
    torch.testing.assert_close(model.forward_features(image()), normed.tanh())
    torch.testing.assert_close(plain.forward_features(image()), normed.relu())


# --- the backbone given, its names, copies --------------------------------------------------------


@pytest.mark.parametrize("library", SMALL)
@pytest.mark.parametrize("block", covpool.list_blocks())
def test_an_object_is_not_changed_and_its_tensors_are_shared(library: str, block: str) -> None:
    plain = SMALL[library]().eval()
    before, text = {key: value.clone() for key, value in plain.state_dict().items()}, repr(plain)
    model = covpool.insert(plain, block)
    assert repr(plain) == text and not model.training and not any(m.training for m in model.modules())
    assert all(torch.equal(value, before[key]) for key, value in plain.state_dict().items())
    parameters = dict(model.named_parameters())
    assert all(parameters[name] is parameter for name, parameter in plain.named_parameters())
    assert [key for key in model.state_dict() if key in before] == list(before)
    assert model.load_state_dict(before, strict=False).unexpected_keys == []


@pytest.mark.parametrize("block", covpool.list_blocks())
def test_copies_and_learning(block: str) -> None:
    model = shaken(covpool.insert(small_torchvision(), block))
    x = image()
    with torch.no_grad():
        y = model(x)
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert torch.equal(other(x), y)
    model.train()(x).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@torch.no_grad()
@pytest.mark.parametrize("blocks", [("cbam", "sort"), ("fb",)])
def test_compile(blocks: tuple[str, ...]) -> None:
    model = small_torchvision()
    for block in blocks:
        model = covpool.insert(model, block)
    compiled = torch.compile(shaken(model), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(image()), model(image()))


def test_half_precision_and_device_are_those_of_the_backbone() -> None:
    model = covpool.insert(small_timm().to(torch.bfloat16), "cbam")
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    with torch.device("meta"):
        bare = small_timm()
    assert {p.device.type for p in covpool.insert(bare, "fb").parameters()} == {"meta"}


@torch.no_grad()
def test_several_blocks() -> None:
    plain = shaken(small_torchvision())
    both = covpool.insert(covpool.insert(plain, "se"), "sort")
    swapped = covpool.insert(covpool.insert(plain, "sort"), "se")
    swapped.load_state_dict(both.state_dict())
    assert torch.equal(both(image()), swapped(image()))
    assert not torch.equal(both(image()), covpool.insert(plain, "sort")(image()))


# --- with a pool, by name, in checkpoints ---------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize(("library", "block"), [("torchvision", "se"), ("torchvision", "sort"), ("timm", "cbam")])
def test_attach_to_an_inserted_backbone(library: str, block: str) -> None:
    model = covpool.insert(shaken(SMALL[library]()), block)
    network = covpool.attach(model, "isqrt", 3, reduce_to=8, keep_last_stride=True).eval()
    features = network.forward_features(image())
    torch.testing.assert_close(features.mean((2, 3)) @ model.fc.weight.T + model.fc.bias, model(image()))
    wide = covpool.attach(model, "isqrt", 3, reduce_to=8).eval()
    assert wide.features.unstrided == ("layer4.0.conv2", "layer4.0.downsample.0")
    assert wide(image()).shape == (2, 3)


@torch.no_grad()
@pytest.mark.parametrize("name", ["test_resnet+se", "torchvision/resnet18+cbam", "test_resnet+se+sort"])
def test_a_checkpoint_of_a_name_with_blocks(name: str, tmp_path: Path) -> None:
    network = covpool.attach(name, "isqrt", 3, reduce_to=8).eval()
    covpool.save(network, tmp_path / "model.safetensors")
    again = covpool.load(tmp_path / "model.safetensors")
    x = image().float()
    assert again.architecture.backbone == name
    assert torch.equal(again(x), network(x))
    assert "ResidualBlock" in repr(again)


def test_weights_of_the_plain_backbone_and_of_the_inserted_one(tmp_path: Path) -> None:
    plain = torchvision.models.resnet18()
    torch.save(plain.state_dict(), tmp_path / "plain.pth")
    network = covpool.attach("torchvision/resnet18+se", "avg", 3, weights=tmp_path / "plain.pth")
    body = network.features.body
    assert torch.equal(body.layer4[1].conv2.weight, plain.layer4[1].conv2.weight)
    whole = {**plain.state_dict(), **{key: torch.ones_like(v) for key, v in body.state_dict().items() if ".se." in key}}
    torch.save(whole, tmp_path / "whole.pth")
    network = covpool.attach("torchvision/resnet18+se", "avg", 3, weights=tmp_path / "whole.pth")
    assert (network.features.body.layer1[0].se.fc1.weight == 1).all()
    del whole["layer1.0.se.fc1.weight"]
    torch.save(whole, tmp_path / "part.pth")
    with pytest.raises(ValueError, match=r"missing layer1\.0\.se\.fc1\.weight"):
        covpool.attach("torchvision/resnet18+se", "avg", 3, weights=tmp_path / "part.pth")


# --- what there is, and wrong use -----------------------------------------------------------------


@pytest.mark.parametrize("name", covpool.list_blocks())
def test_every_block_is_described(name: str) -> None:
    info = covpool.block_info(name)
    assert info.name == name
    assert all((info.title, info.paper, info.formula, info.place, info.parameters))


def test_published_options_are_the_defaults() -> None:
    options = {name: covpool.block_info(name).options for name in covpool.list_blocks()}
    assert options["se"] == options["cbam"] == {"reduction": 16}
    assert options["sort"] == {"tau": 0.01, "root": True}
    fb = {"rank": 20, "drop": 0.5, "self_terms": True, "compensation": "inverted", "activation": "tanh"}
    assert options["fb"] == fb and options["tanh"] == {}


def test_wrong_use() -> None:
    model = small_torchvision()
    known = ", ".join(covpool.list_blocks())
    with pytest.raises(ValueError, match=rf"no block named 'sea' \(did you mean 'se'\?\); there are {known}"):
        covpool.insert(model, "sea")
    with pytest.raises(
        TypeError, match=r"'se' has no option 'reductions' \(did you mean 'reduction'\?\); it takes red"
    ):
        covpool.insert(model, "se", reductions=8)
    with pytest.raises(ValueError, match="has 'se' in its blocks already"):
        covpool.insert(covpool.insert(model, "se"), "se")
    with pytest.raises(ValueError, match="`activation`"):
        covpool.insert(model, "fb", activation="gelu")
    with pytest.raises(TypeError, match="got Network: use attach"):
        covpool.insert(covpool.attach(model, "avg", 3), "se")
    with pytest.raises(TypeError, match="got str"):
        covpool.insert("resnet50", "se")  # type: ignore[type-var]
    with torch.device("meta"):
        with pytest.raises(ValueError, match="DenseNet has no residual block"):
            covpool.insert(torchvision.models.densenet121(), "sort")
        with pytest.raises(ValueError, match="'fb' takes the place of a pool and a linear classifier"):
            covpool.insert(timm.create_model("resnet18", num_classes=0), "fb")
        with pytest.raises(ValueError, match="'fb' is a classifier, which a pool replaces: use the pool 'fbn'"):
            covpool.attach("resnet18+fb", "isqrt")
