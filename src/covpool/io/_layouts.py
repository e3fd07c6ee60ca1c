"""The layouts of other people's covariance-pooling checkpoints, recognized by the names and shapes of their tensors.

The letters A to G are those of docs/checkpoints.md.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from covpool._errors import CovpoolError

State = Mapping[str, Tensor]

BODY, CONVOLUTION, NORM = "features.body", "pool.reduce.0.convolutions.0", "pool.reduce.0.norms.0"
CONV_DR_BLOCK = {r"representation\.conv_dr_block\.0": CONVOLUTION, r"representation\.conv_dr_block\.1": NORM}
FC_INDEX = {
    r"classifier\.1": "classifier.0",
    r"classifier\.4": "classifier.3",
}  # AlexNet has a dropout first

RESNETS: dict[tuple[tuple[int, ...], bool], str] = {
    ((2, 2, 2, 2), False): "resnet18",
    ((3, 4, 6, 3), False): "resnet34",
    ((3, 4, 6, 3), True): "resnet50",
    ((3, 4, 23, 3), True): "resnet101",
    ((3, 8, 36, 3), True): "resnet152",
}
DENSENETS: dict[tuple[int, ...], str] = {
    (6, 12, 24, 16): "densenet121",
    (6, 12, 36, 24): "densenet161",
    (6, 12, 32, 32): "densenet169",
    (6, 12, 48, 32): "densenet201",
}
INCEPTION = {0: "Conv2d_1a_3x3", 1: "Conv2d_2a_3x3", 2: "Conv2d_2b_3x3", 4: "Conv2d_3b_1x1", 5: "Conv2d_4a_3x3"}
INCEPTION |= {7: "Mixed_5b", 8: "Mixed_5c", 9: "Mixed_5d", 10: "Mixed_6a", 11: "Mixed_6b", 12: "Mixed_6c"}
INCEPTION |= {13: "Mixed_6d", 14: "Mixed_6e", 15: "Mixed_7a", 16: "Mixed_7b", 17: "Mixed_7c"}
SHOWN = 6  # names in a message
MARKS = (  # what the layouts are recognized by
    "layer_reduce.weight (A, G), features.4.0.conv1.weight (B, C, F), features.denseblock1.* (F), features.18.0.weight "
    "with dimension_reduction.0.weight (G), features.final_block.conv.weight (pytorchcv), or features.0.weight (E, F)"
)
VGG_DEPTHS = {8: 11, 10: 13, 13: 16, 16: 19}  # convolutions -> layers with weights


@dataclass(frozen=True)
class Layout:
    """The layout of a file.

    Attributes:
        name: Name for messages.
        backbone: Name of the backbone in torchvision, or with its library as in "covpool/resnet50_v1".
        names: Regular expressions for the beginnings of their tensor names -> our names.
        keep_last_stride: Whether the network has its last down-sampling; None if the file does not say.
        options: Options of `covpool.attach` that the shapes of the tensors do not show.
        pool: Name of the pool.
        stride_in_open: Whether the file leaves open which convolutions of the bottlenecks have the strides.
    """

    name: str
    backbone: str
    names: dict[str, str]
    keep_last_stride: bool | None
    options: dict[str, Any] = field(default_factory=dict)
    pool: str = "isqrt"
    stride_in_open: bool = False

    def describe_names(self) -> str:
        """The first names that were tried, for the message about a file that does not fit."""
        pairs = [
            f"{theirs.replace(chr(92), '')}.* -> {ours.replace(chr(92), '$')}.*" for theirs, ours in self.names.items()
        ]
        more = f" and {len(pairs) - SHOWN} more" if len(pairs) > SHOWN else ""
        return f"{', '.join(pairs[:SHOWN])}{more}"

    def rename(self, name: str) -> str | None:
        """Our name for one of their tensors, or None if the layout has no such tensor."""
        for theirs, ours in self.names.items():
            match = re.match(rf"{theirs}\.", name)
            if match:
                return f"{match.expand(ours)}.{name[match.end() :]}"
        return None


def recognize(state: State) -> Layout:
    """Recognize the layout of a state dict, in which names have no prefixes of DataParallel.

    >>> recognize({"head.weight": Tensor()})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    covpool.CovpoolError: the file must be a checkpoint of fast-MPN-COV, GCP_Optimization, DropCov or pytorchcv; ...
    """
    for recognizer in (_release, _resnet, _densenet, _inception, _mobilenet, _pytorchcv, _vgg_or_alexnet):
        layout = recognizer(state)
        if layout is not None:
            return layout
    raise CovpoolError(
        "the file must be a checkpoint of fast-MPN-COV, GCP_Optimization, DropCov or pytorchcv; its "
        f"{len(state)} tensors begin with {', '.join(list(state)[:5])}. Such files have {MARKS}. Give backbone "
        "weights to covpool.attach, our own files to covpool.load"
    )


def _release(state: State) -> Layout | None:
    """Layout A, and the ResNets of G."""
    backbone = _resnet_depth(state, ["layer1", "layer2", "layer3", "layer4"])
    if backbone is None or "layer_reduce.weight" not in state:
        return None
    names = {
        r"(conv1|bn1|layer\d)": rf"{BODY}.\1",
        "layer_reduce": CONVOLUTION,
        "layer_reduce_bn": NORM,
        "fc": "classifier",
    }
    if "eca_layer.conv.weight" in state:
        names |= {r"eca_layer\.conv": "pool.attention"}
        return Layout(f"G: {backbone} trained with DropCov (ResNet_ACD)", backbone, names, False, pool="dropcov")
    name = f"A / G: {backbone} as released by fast-MPN-COV or trained with GCP_Optimization"
    return Layout(name, backbone, names, keep_last_stride=False)


def _resnet(state: State) -> Layout | None:
    """Layouts B and C, and the ResNets of F."""
    backbone = _resnet_depth(state, [f"features.{i}" for i in (4, 5, 6, 7)])
    if backbone is None:
        return None
    names = {r"features\.0": f"{BODY}.conv1", r"features\.1": f"{BODY}.bn1", "classifier": "classifier"}
    names |= {rf"features\.{i}": f"{BODY}.layer{i - 3}" for i in (4, 5, 6, 7)}
    if "features.8.weight" in state:
        names |= {r"features\.8": CONVOLUTION, r"features\.9": NORM}
        return Layout(f"C: {backbone} fine-tuned with fast-MPN-COV from its release", backbone, names, False)
    names |= CONV_DR_BLOCK
    if backbone in ("resnet50", "resnet101") and "representation.conv_dr_block.0.weight" in state:
        return Layout(f"B / F: {backbone} trained with fast-MPN-COV", backbone, names, None)
    return Layout(f"F: {backbone} + MPNCOV of fast-MPN-COV", backbone, names, True)


def _resnet_depth(state: State, stages: list[str]) -> str | None:
    blocks = tuple(_count(state, rf"{re.escape(stage)}\.(\d+)\.conv1\.weight") for stage in stages)
    return RESNETS.get((blocks, f"{stages[0]}.0.conv3.weight" in state))


def _densenet(state: State) -> Layout | None:
    layers = tuple(_count(state, rf"features\.denseblock{i}\.denselayer(\d+)\.conv1\.weight") for i in (1, 2, 3, 4))
    if layers not in DENSENETS:
        return None
    names = {"features": f"{BODY}.features", "classifier": "classifier"} | CONV_DR_BLOCK
    return Layout(f"F: {DENSENETS[layers]} + MPNCOV of fast-MPN-COV", DENSENETS[layers], names, True)


def _inception(state: State) -> Layout | None:
    if "features.17.branch1x1.conv.weight" not in state:
        return None
    names = {rf"features\.{i}": f"{BODY}.{name}" for i, name in INCEPTION.items()}
    names |= {"classifier": "classifier"} | CONV_DR_BLOCK
    options = {"backbone_options": {"init_weights": False}}  # takes torchvision a minute, and the weights are replaced
    return Layout("F: inception_v3 + MPNCOV of fast-MPN-COV", "inception_v3", names, True, options)


def _mobilenet(state: State) -> Layout | None:
    if "features.18.0.weight" not in state or "dimension_reduction.0.weight" not in state:
        return None
    names = {
        "features": f"{BODY}.features",
        r"dimension_reduction\.0": CONVOLUTION,
        r"dimension_reduction\.1": NORM,
        r"classifier\.1": "classifier",
    }
    options = {"reduce_activation": "relu6"}
    return Layout("G: mobilenet_v2 trained with GCP_Optimization", "mobilenet_v2", names, True, options)


def _pytorchcv(state: State) -> Layout | None:
    """The iSQRT-COV-ResNets of pytorchcv."""
    stages = [_count(state, rf"features\.stage{i}\.unit(\d+)\.body\.conv1\.conv\.weight") for i in (1, 2, 3, 4)]
    bottleneck = "features.stage1.unit1.body.conv3.conv.weight" in state
    backbone = RESNETS.get((tuple(stages), bottleneck))
    if backbone is None or "features.final_block.conv.weight" not in state:
        return None
    names = {r"features\.init_block\.conv\.conv": f"{BODY}.conv1", r"features\.init_block\.conv\.bn": f"{BODY}.bn1"}
    names |= {r"features\.final_block\.conv": CONVOLUTION, r"features\.final_block\.bn": NORM, "output": "classifier"}
    for stage, units in enumerate(stages, 1):
        for unit in range(units):
            theirs, ours = rf"features\.stage{stage}\.unit{unit + 1}", f"{BODY}.layer{stage}.{unit}"
            names |= {
                rf"{theirs}\.body\.conv(\d)\.conv": rf"{ours}.conv\1",
                rf"{theirs}\.body\.conv(\d)\.bn": rf"{ours}.bn\1",
            }
            names |= {rf"{theirs}\.identity_conv\.conv": f"{ours}.downsample.0"}
            names |= {rf"{theirs}\.identity_conv\.bn": f"{ours}.downsample.1"}
    return Layout(f"pytorchcv: isqrtcov{backbone}", backbone, names, False, stride_in_open=bottleneck)


def _vgg_or_alexnet(state: State) -> Layout | None:
    """Layout E, and the VGGs and AlexNet of F: convolutions directly in `features`, without the last max-pool."""
    if "features.0.weight" not in state or state["features.0.weight"].ndim != 4:
        return None
    plain = [name for name in state if re.fullmatch(r"features\.\d+\.weight", name)]
    convolutions = sum(state[name].ndim == 4 for name in plain)
    names = {"features": f"{BODY}.features"} | CONV_DR_BLOCK
    if convolutions == 5:
        names |= FC_INDEX | {"classifier": "classifier"}
        return Layout("F: alexnet + MPNCOV of fast-MPN-COV", "alexnet", names, False)
    if convolutions not in VGG_DEPTHS:
        return None
    suffix = "_bn" if any(name.endswith("running_mean") and name.startswith("features.") for name in state) else ""
    backbone = f"vgg{VGG_DEPTHS[convolutions]}{suffix}"
    letter = "E" if backbone == "vgg16_bn" else "F"
    return Layout(
        f"{letter}: {backbone} + MPNCOV of fast-MPN-COV", backbone, names | {"classifier": "classifier"}, False
    )


def _count(state: State, pattern: str) -> int:
    return sum(re.fullmatch(pattern, name) is not None for name in state)
