"""The networks of the paper by name, each in three arms: original, modified first-order, and global covariance pooling.

    resnet50             the original, first-order network
    resnet50_modified    its last stride removed, first-order pooling kept: the fair baseline
    resnet50_isqrt_32k   the same features with a covariance pool: <network>_<pool>_<representation>

Representations, for c channels of the backbone:

    32k          c -> 256            32k_512      c -> 512 -> 256
    12k          c -> 160 (the iNaturalist networks)
    8k           c -> 256 -> 128, the parameter and FLOP columns of Appendix III
    8k_512       c -> 512 -> 128, the error column of Appendix III and the table of compact representations
    8k_direct    c -> 128
    2k           c -> 256 -> 64      2k_direct    c -> 64
    2k_1g, 2k_2g, 2k_4g              c -> 512 -> 128, then a linear map to 2048 in 1, 2 or 4 groups (gaussian: 1)

Steps that would not reduce are left out (AlexNet has 256 channels: its 32k has no reduction, its 8k is 256 -> 128).
"""

import fnmatch
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from torch import nn

from covpool._errors import CovpoolError, did_you_mean
from covpool.models._architecture import NamedArchitecture, as_json
from covpool.models._attach import attach
from covpool.models._backbone import device_and_dtype, make_backbone
from covpool.models._by_name import classifier_by_name
from covpool.models._early_networks import TABLES
from covpool.models._flatten import FlattenPool
from covpool.models._head import make_classifier
from covpool.models._last_stride import remove_last_stride
from covpool.models._network import Network


@dataclass(frozen=True)
class Base:
    """An original network.

    Attributes:
        channels: Channels of its last map.
        image: Side of its images.
        grid: Side of the map that its first FC layer sees; None for a network with average pooling and one FC layer.
        norm: Whether its hidden FC layers have batch norm.
        gcp_norm: Whether the hidden FC layers after a covariance pool have batch norm. The paper says yes, but the
            authors' VGG16-BN has FC-ReLU-Dropout, which gives the 170,479,144 parameters of their checkpoint.
    """

    channels: int
    image: int = 224
    grid: int | None = None
    norm: bool = False
    gcp_norm: bool = True


BASES: dict[str, Base] = {
    "alexnet": Base(256, image=227, grid=6, norm=True),
    "vgg_f": Base(256, grid=6, norm=True),
    "vgg_m": Base(512, grid=6, norm=True),
    "vgg16": Base(512, grid=7),
    "vgg16_bn": Base(512, grid=7, gcp_norm=False),
    "resnet18": Base(512),
    "resnet34": Base(512),
    "resnet50": Base(2048),
    "resnet101": Base(2048),
    "resnet152": Base(2048),
    "densenet201": Base(1920),
}
POOLS = ("isqrt", "mpn", "gaussian", "cov")
HIDDEN = (4096, 4096)  # widths of the hidden layers in every head that has them

CHAINS: dict[str, tuple[int, ...]] = {
    "32k": (256,),
    "12k": (160,),
    "8k": (256, 128),
    "2k": (256, 64),
    "32k_512": (512, 256),
    "8k_512": (512, 128),
    "8k_direct": (128,),
    "2k_direct": (64,),
}
GROUPS = {"2k_1g": 1, "2k_2g": 2, "2k_4g": 4}
PROJECTION = 2048
FLATTEN = "flatten"  # stands for FlattenPool, which is not a registered pool


def list_models(pattern: str = "*") -> list[str]:
    """The names of all networks that `create_model` builds, grouped by backbone.

    >>> list_models("resnet18_isqrt_*")
    ['resnet18_isqrt_32k', 'resnet18_isqrt_12k', 'resnet18_isqrt_8k', 'resnet18_isqrt_2k', 'resnet18_isqrt_8k_direct',
     'resnet18_isqrt_2k_direct']
    """
    names = []
    for base, about in BASES.items():
        names += [base, f"{base}_modified"]
        names += [f"{base}_{pool}_{size}" for pool in POOLS for size in _representations(about.channels, pool)]
    return fnmatch.filter(names, pattern)


def create_model(name: str, num_classes: int = 1000, **pool_options: Any) -> Network:
    """Build one of the paper's networks, with fresh weights.

    Args:
        name: One of `list_models()`; docs/models.md explains the names.
        num_classes: Length of the logits.
        pool_options: Options of the pool, such as iterations=3.

    Reference: "Deep CNNs Meet Global Covariance Pooling", Appendix III and the tables of compact representations.

    >>> network = create_model("resnet50_isqrt_32k")
    >>> sum(p.numel() for p in network.parameters())
    56929832
    """
    base, arm = split_name(name)
    about = BASES[base]
    model = classifier_by_name(f"{'covpool' if base in TABLES else 'torchvision'}/{base}")
    size = (about.image, about.image)
    if arm not in ("", "modified"):
        options: dict[str, Any] = {**representation_of(name), **pool_options}
        layers = HIDDEN if about.grid else ()
        network = attach(
            model, pool_of(name), num_classes, head_layers=layers, head_norm=about.gcp_norm, input_size=size, **options
        )
    elif about.grid is None:
        network = attach(model, "avg", num_classes, keep_last_stride=arm == "", **pool_options)
    else:
        network = _with_grid(model, about, num_classes, modified=arm == "modified", **pool_options)
    network.architecture = NamedArchitecture(name=name, num_classes=num_classes, pool_options=as_json(pool_options))
    return network


def split_name(name: str) -> tuple[str, str]:
    """Split a name into the network and the arm; the arm of an original network is "".

    >>> split_name("vgg16_bn_isqrt_32k")
    ('vgg16_bn', 'isqrt_32k')
    """
    names = list_models()
    if name not in names:
        raise CovpoolError(f"there is no model named {name!r}{did_you_mean(name, names)}; `list_models()` lists all")
    base = max((b for b in BASES if name == b or name.startswith(f"{b}_")), key=len)
    return base, name.removeprefix(base).removeprefix("_")


def pool_of(name: str) -> str:
    """The name of the pool in one of the networks; "flatten" if FC layers see the whole map.

    >>> pool_of("resnet50_mpn_32k"), pool_of("resnet50"), pool_of("vgg16_modified")
    ('mpn', 'avg', 'flatten')
    """
    base, arm = split_name(name)
    if arm in ("", "modified"):
        return "avg" if BASES[base].grid is None else FLATTEN
    return arm.partition("_")[0]


def representation_of(name: str) -> dict[str, Any]:
    """The pool options that the name of a network implies.

    >>> representation_of("resnet50_isqrt_8k"), representation_of("resnet50")
    ({'reduce_to': (256, 128)}, {})
    """
    base, arm = split_name(name)
    if arm in ("", "modified"):
        return {}
    pool, _, size = arm.partition("_")
    return _representations(BASES[base].channels, pool)[size]


def _with_grid(model: nn.Module, about: Base, num_classes: int, *, modified: bool, **pool_options: Any) -> Network:
    """AlexNet or VGG with their own head: features averaged to a fixed grid, and FC layers."""
    assert about.grid is not None
    backbone = make_backbone(model, input_size=(about.image, about.image))
    if modified:
        remove_last_stride(backbone, type(model).__name__)
    features = nn.Sequential(OrderedDict(body=backbone.body, grid=nn.AdaptiveAvgPool2d(about.grid)))
    pool = FlattenPool(about.channels, positions=about.grid**2, **pool_options)
    head = make_classifier(pool.out_features, num_classes, layers=HIDDEN, norm=about.norm)
    return Network(features, pool, head.to(*device_and_dtype(features)))


def _representations(channels: int, pool: str) -> dict[str, dict[str, Any]]:
    """The distinct representations for this many channels, by name, with the pool options of each."""
    made: dict[str, dict[str, Any]] = {}
    for size, chain in CHAINS.items():
        steps = tuple(width for width in chain if width < channels)
        repeated = any(options["reduce_to"] == (steps or None) for options in made.values())
        if not repeated and ("_" not in size or steps == chain):
            made[size] = {"reduce_to": steps or None}
    if channels > max(CHAINS["8k_512"]):
        for size, groups in GROUPS.items():
            if groups > 1 and pool == "gaussian":  # its 8385 numbers cannot be divided into two or four groups
                continue
            made[size] = {"reduce_to": CHAINS["8k_512"], "project_to": PROJECTION, "groups": groups}
    return made
