"""Checkpoints of other projects, against forward passes written out by hand with the same tensors."""

import copy
import logging
import re
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torchvision
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

import covpool
from covpool.io import import_checkpoint
from covpool.io._import_checkpoint import _with_stride_in
from covpool.io._layouts import recognize

State = dict[str, Tensor]
WIDTH, CLASSES, HIDDEN = 16, 7, 24
VECTOR = WIDTH * (WIDTH + 1) // 2


# --- the files ------------------------------------------------------------------------------------


def random_tensors(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> State:
    """Return weights that keep the scale of signals, and batch norms that are not the identity."""
    generator = torch.Generator().manual_seed(seed)
    state: State = {}
    for name, shape in shapes.items():
        noise = torch.randn(shape, generator=generator)
        if name.endswith("num_batches_tracked"):
            state[name] = torch.tensor(17)
        elif name.endswith("running_var"):
            state[name] = 0.7 + 0.6 * torch.rand(shape, generator=generator)
        elif name.endswith("weight") and len(shape) == 1:
            state[name] = 0.9 + 0.4 * torch.rand(shape, generator=generator)
        elif len(shape) > 1:
            state[name] = noise * (2 / noise[0].numel()) ** 0.5
        else:
            state[name] = 0.2 * noise
    return state


def body(model: str, rename: Callable[[str], str | None], **options: object) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a torchvision network, renamed; None leaves one out."""
    with torch.device("meta"):
        made = torchvision.models.get_model(model, **options)
    renamed = {rename(name): tuple(tensor.shape) for name, tensor in made.state_dict().items()}
    return {name: shape for name, shape in renamed.items() if name is not None}


def norm(name: str, width: int = WIDTH) -> dict[str, tuple[int, ...]]:
    vectors = {f"{name}.{entry}": (width,) for entry in ("weight", "bias", "running_mean", "running_var")}
    return {**vectors, f"{name}.num_batches_tracked": ()}


def linear(name: str, inputs: int = VECTOR, outputs: int = CLASSES) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def reduction(convolution: str, batch_norm: str, channels: int) -> dict[str, tuple[int, ...]]:
    return {f"{convolution}.weight": (WIDTH, channels, 1, 1), **norm(batch_norm)}


CONV_DR_BLOCK = ("representation.conv_dr_block.0", "representation.conv_dr_block.1")
SEQUENTIAL = {"conv1": "0", "bn1": "1", "layer1": "4", "layer2": "5", "layer3": "6", "layer4": "7"}


def in_sequential(name: str) -> str | None:
    first, _, rest = name.partition(".")
    return f"features.{SEQUENTIAL[first]}.{rest}" if first in SEQUENTIAL else None


def only(prefix: str) -> Callable[[str], str | None]:
    return lambda name: name if name.startswith(prefix) else None


def release(model: str, channels: int) -> State:
    """A, and the ResNets of G."""
    shapes = body(model, lambda name: None if name.startswith("fc.") else name)
    return random_tensors({**shapes, **reduction("layer_reduce", "layer_reduce_bn", channels), **linear("fc")})


def trained(model: str, channels: int) -> State:
    """B, and the ResNets of F."""
    return random_tensors({**body(model, in_sequential), **linear("classifier"), **reduction(*CONV_DR_BLOCK, channels)})


def fine_tuned(model: str, channels: int) -> State:
    """C."""
    shapes = {**body(model, in_sequential), **reduction("features.8", "features.9", channels)}
    return random_tensors({**shapes, **linear("classifier")})


def with_features(model: str, channels: int, classifier: dict[str, tuple[int, ...]]) -> State:
    """E, and the VGGs, AlexNet and DenseNets of F."""
    return random_tensors({**body(model, only("features.")), **reduction(*CONV_DR_BLOCK, channels), **classifier})


INCEPTION = [
    *("Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_2b_3x3", "maxpool1", "Conv2d_3b_1x1", "Conv2d_4a_3x3", "maxpool2"),
    *("Mixed_5b", "Mixed_5c", "Mixed_5d", "Mixed_6a", "Mixed_6b", "Mixed_6c", "Mixed_6d", "Mixed_6e"),
    *("Mixed_7a", "Mixed_7b", "Mixed_7c"),
]


def inception() -> State:
    def numbered(name: str) -> str | None:
        first, _, rest = name.partition(".")
        return f"features.{INCEPTION.index(first)}.{rest}" if first in INCEPTION else None

    shapes = {**body("inception_v3", numbered, init_weights=False), **reduction(*CONV_DR_BLOCK, 2048)}
    return random_tensors({**shapes, **linear("classifier")})


def three_layers(*indices: int) -> dict[str, tuple[int, ...]]:
    widths = (VECTOR, HIDDEN, HIDDEN, CLASSES)
    return {
        k: s
        for i, a, b in zip(indices, widths, widths[1:], strict=False)
        for k, s in linear(f"classifier.{i}", a, b).items()
    }


def mobilenet() -> State:
    shapes = {
        **body("mobilenet_v2", only("features.")),
        **reduction("dimension_reduction.0", "dimension_reduction.1", 1280),
    }
    return random_tensors({**shapes, **linear("classifier.1")})


PYTORCHCV = [("conv1", "features.init_block.conv.conv"), ("bn1", "features.init_block.conv.bn"), ("fc", "output")]
PYTORCHCV += [("layer_reduce_bn", "features.final_block.bn"), ("layer_reduce", "features.final_block.conv")]


def in_pytorchcv(name: str) -> str:
    """Their name for a tensor of a release."""
    first, _, rest = name.partition(".")
    if first in dict(PYTORCHCV):
        return f"{dict(PYTORCHCV)[first]}.{rest}"
    stage, unit, module, entry = re.match(r"layer(\d)\.(\d+)\.(\w+(?:\.\d)?)\.(\w+)$", name).groups()
    kind = "conv" if module.startswith("conv") or module == "downsample.0" else "bn"
    place = "identity_conv" if module.startswith("downsample") else f"body.conv{module[-1]}"
    return f"features.stage{stage}.unit{int(unit) + 1}.{place}.{kind}.{entry}"


def pytorchcv(model: str, channels: int) -> State:
    return {in_pytorchcv(name): tensor for name, tensor in release(model, channels).items()}


def as_release(s: State) -> State:
    names = {in_pytorchcv(name): name for name in release("resnet18", 512)}
    return {names[name]: tensor for name, tensor in s.items()}


# --- the forwards ---------------------------------------------------------------------------------


def conv(s: State, name: str, x: Tensor, **options: int) -> Tensor:
    return F.conv2d(x, s[f"{name}.weight"], s.get(f"{name}.bias"), **options)


def bn(s: State, name: str, x: Tensor) -> Tensor:
    mean, var, weight, bias = (
        s[f"{name}.{e}"][:, None, None] for e in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / torch.sqrt(var + 1e-5) * weight + bias


def isqrt(x: Tensor, iterations: int = 5) -> Tensor:
    """The paper, line by line: centring matrix, trace normalisation, coupled iteration, upper triangle."""
    x = x.flatten(2)
    n, eye = x.shape[2], torch.eye(x.shape[1], dtype=x.dtype)
    sigma = x @ (torch.eye(n, dtype=x.dtype) / n - 1 / n**2) @ x.mT
    trace = sigma.diagonal(dim1=1, dim2=2).sum(1)[:, None, None]
    y, z = sigma / trace, eye
    for _ in range(iterations):
        t = (3 * eye - z @ y) / 2
        y, z = y @ t, t @ z
    root = y * trace.sqrt()
    return torch.cat([root[:, i, i:] for i in range(eye.shape[0])], 1)


def head(s: State, x: Tensor, convolution: str, batch_norm: str, classifier: str, iterations: int = 5) -> Tensor:
    z = isqrt(bn(s, batch_norm, conv(s, convolution, x)).relu(), iterations)
    return F.linear(z, s[f"{classifier}.weight"], s[f"{classifier}.bias"])


def drop_cov_head(s: State, x: Tensor) -> Tensor:
    """In evaluation, DropCov is the plain covariance."""
    x = bn(s, "layer_reduce_bn", conv(s, "layer_reduce", x)).relu().flatten(2)
    x = x - x.mean(2, keepdim=True)
    sigma = x @ x.mT / x.shape[2]
    z = torch.cat([sigma[:, i, i:] for i in range(sigma.shape[1])], 1)
    return F.linear(z, s["fc.weight"], s["fc.bias"])


def three_layer_head(s: State, x: Tensor, *indices: int) -> Tensor:
    z = isqrt(bn(s, CONV_DR_BLOCK[1], conv(s, CONV_DR_BLOCK[0], x)).relu())
    for i in indices[:-1]:
        z = F.linear(z, s[f"classifier.{i}.weight"], s[f"classifier.{i}.bias"]).relu()
    return F.linear(z, s[f"classifier.{indices[-1]}.weight"], s[f"classifier.{indices[-1]}.bias"])


def resnet(s: State, x: Tensor, stem: tuple[str, str], stages: list[str], last_stride: int) -> Tensor:
    x = F.max_pool2d(bn(s, stem[1], conv(s, stem[0], x, stride=2, padding=3)).relu(), 3, 2, 1)
    for stage, first_stride in zip(stages, (1, 2, 2, last_stride), strict=True):
        block = 0
        while f"{stage}.{block}.conv1.weight" in s:
            name, stride = f"{stage}.{block}", first_stride if block == 0 else 1
            if f"{name}.conv3.weight" in s:
                y = bn(s, f"{name}.bn1", conv(s, f"{name}.conv1", x)).relu()
                y = bn(s, f"{name}.bn2", conv(s, f"{name}.conv2", y, stride=stride, padding=1)).relu()
                y = bn(s, f"{name}.bn3", conv(s, f"{name}.conv3", y))
            else:
                y = bn(s, f"{name}.bn1", conv(s, f"{name}.conv1", x, stride=stride, padding=1)).relu()
                y = bn(s, f"{name}.bn2", conv(s, f"{name}.conv2", y, padding=1))
            if f"{name}.downsample.0.weight" in s:
                x = bn(s, f"{name}.downsample.1", conv(s, f"{name}.downsample.0", x, stride=stride))
            x, block = (x + y).relu(), block + 1
    return x


def named_resnet(s: State, x: Tensor) -> Tensor:
    return resnet(s, x, ("conv1", "bn1"), ["layer1", "layer2", "layer3", "layer4"], 1)


def numbered_resnet(s: State, x: Tensor, last_stride: int) -> Tensor:
    return resnet(s, x, ("features.0", "features.1"), [f"features.{i}" for i in (4, 5, 6, 7)], last_stride)


def vgg16(s: State, x: Tensor, *, batch_norm: bool) -> Tensor:
    index = 0
    for i, convolutions in enumerate((2, 2, 3, 3, 3)):
        if i:
            x, index = F.max_pool2d(x, 2), index + 1
        for _ in range(convolutions):
            x = conv(s, f"features.{index}", x, padding=1)
            x = (bn(s, f"features.{index + 1}", x) if batch_norm else x).relu()
            index += 3 if batch_norm else 2
    return x


def alexnet(s: State, x: Tensor) -> Tensor:
    x = F.max_pool2d(conv(s, "features.0", x, stride=4, padding=2).relu(), 3, 2)
    x = F.max_pool2d(conv(s, "features.3", x, padding=2).relu(), 3, 2)
    for index in (6, 8, 10):
        x = conv(s, f"features.{index}", x, padding=1).relu()
    return x


def densenet(s: State, x: Tensor) -> Tensor:
    x = F.max_pool2d(bn(s, "features.norm0", conv(s, "features.conv0", x, stride=2, padding=3)).relu(), 3, 2, 1)
    for block in (1, 2, 3, 4):
        layer = 1
        while f"features.denseblock{block}.denselayer{layer}.conv1.weight" in s:
            name = f"features.denseblock{block}.denselayer{layer}"
            y = conv(s, f"{name}.conv1", bn(s, f"{name}.norm1", x).relu())
            y = conv(s, f"{name}.conv2", bn(s, f"{name}.norm2", y).relu(), padding=1)
            x, layer = torch.cat((x, y), 1), layer + 1
        if block < 4:
            name = f"features.transition{block}"
            x = F.avg_pool2d(conv(s, f"{name}.conv", bn(s, f"{name}.norm", x).relu()), 2)
    return bn(s, "features.norm5", x).relu()


def inception_v3(s: State, x: Tensor) -> Tensor:
    """A chain of torchvision's own blocks, as fast-MPN-COV makes it."""
    made = torchvision.models.inception_v3(init_weights=False)
    chain = torch.nn.Sequential(*(getattr(made, name) for name in INCEPTION)).to(x.dtype).eval()
    prefix = "features."
    chain.load_state_dict({name.removeprefix(prefix): t for name, t in s.items() if name.startswith(prefix)})
    z: Tensor = chain(x)
    return z


def mobilenet_v2(s: State, x: Tensor) -> Tensor:
    x = F.relu6(bn(s, "features.0.1", conv(s, "features.0.0", x, stride=2, padding=1)))
    index = 1
    for repeats, first_stride in ((1, 1), (2, 2), (3, 2), (4, 2), (3, 1), (3, 2), (1, 1)):
        for i in range(repeats):
            name, y = f"features.{index}.conv", x
            depthwise = 0
            if index > 1:
                y, depthwise = F.relu6(bn(s, f"{name}.0.1", conv(s, f"{name}.0.0", y))), 1
            stride = first_stride if i == 0 else 1
            y = conv(s, f"{name}.{depthwise}.0", y, stride=stride, padding=1, groups=y.shape[1])
            y = F.relu6(bn(s, f"{name}.{depthwise}.1", y))
            y = bn(s, f"{name}.{depthwise + 2}", conv(s, f"{name}.{depthwise + 1}", y))
            x, index = x + y if i else y, index + 1
    return F.relu6(bn(s, "features.18.1", conv(s, "features.18.0", x)))


def mobilenet_forward(s: State, x: Tensor) -> Tensor:
    y = F.relu6(bn(s, "dimension_reduction.1", conv(s, "dimension_reduction.0", mobilenet_v2(s, x))))
    return F.linear(isqrt(y), s["classifier.1.weight"], s["classifier.1.bias"])


RELEASE = ("layer_reduce", "layer_reduce_bn", "fc")
TRAINED = (*CONV_DR_BLOCK, "classifier")

# layout -> (tensors, forward, start of `origin`)
CASES: dict[str, tuple[Callable[[], State], Callable[[State, Tensor], Tensor], str]] = {
    "A resnet50": (
        lambda: release("resnet50", 2048),
        lambda s, x: head(s, named_resnet(s, x), *RELEASE),
        "A / G: resnet50",
    ),
    "B resnet50": (
        lambda: trained("resnet50", 2048),
        lambda s, x: head(s, numbered_resnet(s, x, 1), *TRAINED),
        "B / F: resnet50",
    ),
    "C resnet50": (
        lambda: fine_tuned("resnet50", 2048),
        lambda s, x: head(s, numbered_resnet(s, x, 1), "features.8", "features.9", "classifier"),
        "C: resnet50",
    ),
    "E vgg16_bn": (
        lambda: with_features("vgg16_bn", 512, three_layers(0, 3, 6)),
        lambda s, x: three_layer_head(s, vgg16(s, x, batch_norm=True), 0, 3, 6),
        "E: vgg16_bn",
    ),
    "E vgg16_bn fine-tuned": (
        lambda: with_features("vgg16_bn", 512, linear("classifier")),
        lambda s, x: head(s, vgg16(s, x, batch_norm=True), *TRAINED),
        "E: vgg16_bn",
    ),
    "F resnet18": (
        lambda: trained("resnet18", 512),
        lambda s, x: head(s, numbered_resnet(s, x, 2), *TRAINED),
        "F: resnet18",
    ),
    "F densenet201": (
        lambda: with_features("densenet201", 1920, linear("classifier")),
        lambda s, x: head(s, densenet(s, x), *TRAINED),
        "F: densenet201",
    ),
    "F inception_v3": (
        inception,
        lambda s, x: head(s, inception_v3(s, x), *TRAINED),
        "F: inception_v3",
    ),
    "F vgg16": (
        lambda: with_features("vgg16", 512, three_layers(0, 3, 6)),
        lambda s, x: three_layer_head(s, vgg16(s, x, batch_norm=False), 0, 3, 6),
        "F: vgg16",
    ),
    "F alexnet": (
        lambda: with_features("alexnet", 256, three_layers(1, 4, 6)),
        lambda s, x: three_layer_head(s, alexnet(s, x), 1, 4, 6),
        "F: alexnet",
    ),
    "G resnet34": (
        lambda: release("resnet34", 512),
        lambda s, x: head(s, named_resnet(s, x), *RELEASE),
        "A / G: resnet34",
    ),
    "G mobilenet_v2": (mobilenet, mobilenet_forward, "G: mobilenet_v2"),
    "DropCov resnet18": (
        lambda: {**release("resnet18", 512), **random_tensors({"eca_layer.conv.weight": (1, 1, 3)})},
        lambda s, x: drop_cov_head(s, named_resnet(s, x)),
        "G: resnet18 trained with DropCov",
    ),
    "pytorchcv resnet18": (
        lambda: pytorchcv("resnet18", 512),
        lambda s, x: head(as_release(s), named_resnet(as_release(s), x), *RELEASE),
        "pytorchcv: isqrtcovresnet18",
    ),
}


def images(size: int = 96) -> Tensor:
    return torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(3))


def difference(network: covpool.models.Network, state: State, forward: Callable[[State, Tensor], Tensor]) -> float:
    """Between a network of ours and a forward from the file's tensors, as a part of the largest output, in float64.

    In float32 a network of random weights magnifies rounding errors to 1e-4, in either of the two.
    """
    x = images(160 if "inception" in str(network.origin) else 64).double()  # inception has no map left at 64
    expected = forward({name: tensor.double() for name, tensor in state.items()}, x)
    assert (expected[0] - expected[1]).abs().max() > 1e-2 * expected.abs().max()  # the outputs of two images differ
    return float((copy.deepcopy(network).double()(x) - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_layout_gives_the_outputs_of_its_own_network(case: str, tmp_path: Path) -> None:
    build, forward, said = CASES[case]
    state = build()
    torch.save(OrderedDict(state), tmp_path / "foreign.pth")
    network = import_checkpoint(tmp_path / "foreign.pth")
    assert difference(network, state, forward) <= 1e-10
    assert network.origin is not None and network.origin.startswith(said)
    assert not network.training and network.num_classes == CLASSES


# --- wrappings ------------------------------------------------------------------------------------


def data_parallel(state: State) -> State:
    """Rename the tensors as DataParallel around `features` does."""
    return {name.replace("features.", "features.module.", 1): tensor for name, tensor in state.items()}


def training_checkpoint(state: State, architecture: str) -> dict[str, object]:
    optimizer = {"state": {}, "param_groups": [{"lr": 0.1, "params": [0, 1]}]}
    return {
        "epoch": 3,
        "arch": architecture,
        "state_dict": OrderedDict(state),
        "best_prec1": torch.tensor(77.8),
        "optimizer": optimizer,
    }


@pytest.mark.parametrize(("architecture", "last_stride"), [("mpncovresnet50", 1), ("resnet50", 2)])
@torch.no_grad()
def test_training_checkpoint_of_data_parallel_tells_the_stride(
    architecture: str, last_stride: int, tmp_path: Path
) -> None:
    state = trained("resnet50", 2048)
    path = tmp_path / "model_best.pth.tar"
    torch.save(training_checkpoint(data_parallel(state), architecture), path)
    network = import_checkpoint(path)
    assert difference(network, state, lambda s, x: head(s, numbered_resnet(s, x, last_stride), *TRAINED)) <= 1e-10
    assert network.origin is not None and ("kept" if last_stride == 2 else "removed") in network.origin


@torch.no_grad()
def test_wrappings_make_no_difference(tmp_path: Path) -> None:
    state = release("resnet18", 512)
    without_counts = {name: t for name, t in state.items() if not name.endswith("num_batches_tracked")}
    forms: list[object] = [
        state,
        without_counts,
        {f"module.{name}": tensor for name, tensor in state.items()},
        {"model": without_counts},
    ]
    x = images()
    outputs = []
    for form in forms:
        torch.save(form, tmp_path / "foreign.pth")
        outputs.append(import_checkpoint(tmp_path / "foreign.pth")(x))
    assert all(torch.equal(output, outputs[0]) for output in outputs)


# --- options, and what is said --------------------------------------------------------------------


@torch.no_grad()
def test_an_unknown_stride_is_taken_as_removed_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    torch.save(trained("resnet50", 2048), tmp_path / "foreign.pth")
    import_checkpoint(tmp_path / "foreign.pth")
    assert "keep_last_stride=True" in caplog.text
    network = import_checkpoint(tmp_path / "foreign.pth", keep_last_stride=True)
    features = network.forward_features(images())
    assert isinstance(features, Tensor) and features.shape[-1] == 3


@torch.no_grad()
def test_options_and_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = trained("resnet18", 512)
    torch.save(state, tmp_path / "foreign.pth")
    with caplog.at_level(logging.INFO, "covpool"):
        network = import_checkpoint(tmp_path / "foreign.pth", iterations=3)
    assert "F: resnet18 + MPNCOV of fast-MPN-COV, last stride kept" in caplog.text
    assert difference(network, state, lambda s, x: head(s, numbered_resnet(s, x, 2), *TRAINED, iterations=3)) <= 1e-10
    assert import_checkpoint(tmp_path / "foreign.pth", num_classes=3)(images()).shape == (2, 3)


@torch.no_grad()
def test_an_imported_network_is_saved_and_loaded(tmp_path: Path) -> None:
    torch.save(mobilenet(), tmp_path / "foreign.pth")
    network = covpool.import_checkpoint(tmp_path / "foreign.pth")
    covpool.save(network, tmp_path / "ours.safetensors")
    again = covpool.load(tmp_path / "ours.safetensors")
    assert torch.equal(again(images()), network(images()))
    assert again.origin == network.origin


def refused(contents: object, path: Path) -> str:
    torch.save(contents, path)
    with pytest.raises(ValueError, match=r".") as error:
        import_checkpoint(path)
    return str(error.value)


def test_an_unknown_layout_lists_its_first_keys(tmp_path: Path) -> None:
    message = refused({"stem.weight": torch.ones(2), "stem.bias": torch.ones(2)}, tmp_path / "x.pth")
    assert "stem.weight, stem.bias" in message


def test_what_does_not_fit_a_known_layout_is_named(tmp_path: Path) -> None:
    state = release("resnet18", 512)
    del state["layer1.1.bn2.bias"]
    state["extra.weight"] = torch.ones(1)
    state["conv1.weight"] = torch.ones(64, 3, 3, 3)
    message = refused(state, tmp_path / "x.pth")
    assert all(name in message for name in ("resnet18", "extra.weight", "layer1.1.bn2.bias", "conv1.weight"))
    assert "with the names (conv1|bn1|layerd).* -> features.body.$1.*, layer_reduce.* -> pool.reduce" in message


def test_the_strides_of_bottlenecks_of_pytorchcv(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = pytorchcv("resnet50", 2048)
    torch.save(state, tmp_path / "foreign.pth")
    first = import_checkpoint(tmp_path / "foreign.pth", stride_in="1x1")
    assert first.origin == "pytorchcv: isqrtcovresnet50, strides in the 1x1 convolutions, last stride removed"
    strides = [first.get_submodule(f"features.body.layer{layer}.0.conv1").stride for layer in (2, 3, 4)]
    assert strides == [(2, 2), (2, 2), (1, 1)] and not caplog.text
    assumed = _with_stride_in(recognize(state), None)
    assert assumed.name.endswith("isqrtcovresnet50, strides in the 3x3 convolutions (assumed)")
    assert assumed.backbone == "resnet50" and "assuming the 3x3 ones (isqrtcovresnet50b)" in caplog.text


def test_a_stride_that_is_not_open_is_refused() -> None:
    with pytest.raises(ValueError, match="`stride_in` applies to ResNets of pytorchcv with bottlenecks; got pytorchcv"):
        _with_stride_in(recognize(pytorchcv("resnet18", 512)), "1x1")


def test_another_pooling_is_refused(tmp_path: Path) -> None:
    state = {**release("resnet18", 512), **random_tensors(linear("fc", inputs=WIDTH))}
    assert "another pooling" in refused(state, tmp_path / "x.pth")


def test_a_network_without_classifier_is_refused(tmp_path: Path) -> None:
    state = {name: t for name, t in release("resnet18", 512).items() if not name.startswith("fc.")}
    assert "it has no classifier" in refused(state, tmp_path / "x.pth")


class Trap:
    """Unpickling this would raise SystemExit."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return SystemExit, ("code was run",)


def test_no_code_in_a_file_is_run(tmp_path: Path) -> None:
    assert "tensors and plain values" in refused(
        {"state_dict": release("resnet18", 512), "args": Trap()}, tmp_path / "x.pth"
    )


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no weights file"):
        import_checkpoint(tmp_path / "nowhere.pth")
    (tmp_path / "text.pth").write_text("hello")
    with pytest.raises(ValueError, match="damaged"):
        import_checkpoint(tmp_path / "text.pth")
    assert "epoch" in refused({"epoch": 3}, tmp_path / "x.pth")
