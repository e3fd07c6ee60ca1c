"""What a probe may be told: the backbone, the pools, the one protocol under which they are compared."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import covpool
from covpool._check import check_positive_int, did_you_mean
from covpool._errors import CovpoolError
from covpool.data import Augment, Data, check_augment, check_data, check_not_negative
from covpool.recipe import Text, listed, set_value, to_dataclass, typed

EVERY_POOL = "all"


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A comparison of pools on the frozen features of one backbone. Every pool gets the same."""

    backbone: str = ""  # "resnet50" is timm's, "torchvision/resnet50" torchvision's
    backbone_options: dict[str, Any] = field(default_factory=dict)
    weights: str = ""  # a file of the backbone's weights
    pretrained: bool = False  # the weights that timm or torchvision download
    keep_last_stride: bool = False
    pools: tuple[str, ...] = ("avg", "bcnn", "cov", "isqrt")  # NAME or NAME:option=value:..., or "all"
    reduce_to: int = 128  # channels after a 1x1 convolution before every pool; 0 = no reduction
    epochs: int = 10
    batch_size: int = 32
    lr: tuple[float, ...] = (0.01, 0.1, 1.0)  # of these, one for each pool, by a held-out part of the training images
    extend_lr: int = 2  # further learning rates tried, while the best one is the first or the last
    refine_lr: bool = True  # at last try those halfway between the best and its neighbours
    held_out: float = 0.25  # of the training images, for that choice
    folds: int = 2  # how many such parts, one after another, with a seed each
    momentum: float = 0.9
    weight_decay: float = 1e-4
    warmup_epochs: float = 1.0  # before the cosine
    clip_norm: float = 5.0  # of the gradient; 0 = no clipping
    head_factor: float = 1.0  # the classifier learns at lr * head_factor
    descriptors: int = 20_000  # from which pools that start from data start
    seeds: tuple[int, ...] = (0, 1, 2)
    maps: Literal["fp16", "bf16", "fp32"] = "fp16"  # the kept feature maps
    keep: Literal["device", "ram"] = "device"  # where they are kept
    cache: str = ""  # a folder that keeps them on disk too, for the next probe
    data: Data = field(default_factory=Data)
    augment: Augment = field(default_factory=Augment)  # its size, resize, mean, std and interpolation


def read_probe(settings: Iterable[str]) -> Probe:
    """A probe from settings as they are typed: "key=value", the names of pools without quotes.

    >>> read_probe(["backbone=resnet18", "pools=[avg, isqrt:iterations=3]", "augment.size=160"]).pools
    ('avg', 'isqrt:iterations=3')
    """
    table: dict[str, Any] = {}
    for setting in settings:
        set_value(table, setting)
    if "pools" in table:
        names = listed(table["pools"])
        table["pools"] = [str(table["pools"])] if names is None else names
    probe = to_dataclass(Probe, table)
    check_probe(probe)
    return probe


def chosen_pools(probe: Probe) -> dict[str, tuple[str, dict[str, Any]]]:
    """The pools by their label: name and options, "all" being every registered one.

    >>> chosen_pools(Probe(pools=("avg", "isqrt:iterations=3")))["isqrt:iterations=3"]
    ('isqrt', {'iterations': 3})
    """
    labels = [name for label in probe.pools for name in (covpool.list_pools() if label == EVERY_POOL else [label])]
    return {label: _pool(label) for label in dict.fromkeys(labels)}


def check_probe(probe: Probe) -> None:
    """Refuse what cannot work, naming the setting, before anything is loaded."""
    if not probe.backbone:
        raise CovpoolError(
            "no backbone is named: set backbone=..., as in backbone=resnet50 or torchvision/mobilenet_v2"
        )
    if probe.weights and probe.pretrained:
        raise CovpoolError("`weights` and `pretrained` both give weights: choose one")
    for name in ("epochs", "batch_size", "descriptors", "folds"):
        check_positive_int(name, getattr(probe, name))
    for name in ("reduce_to", "extend_lr", "momentum", "weight_decay", "head_factor", "warmup_epochs", "clip_norm"):
        check_not_negative(name, getattr(probe, name))
    check_data(probe.data)
    check_augment(probe.augment)
    if not (0 < probe.held_out < 1 and probe.held_out * probe.folds <= 1):
        raise CovpoolError(
            f"`held_out` must be a part of the training images, in (0, 1), `folds` of which make at most all of them; "
            f"got held_out = {probe.held_out}, folds = {probe.folds}"
        )
    if not probe.lr or any(not (math.isfinite(lr) and lr > 0) for lr in probe.lr):
        raise CovpoolError(f"`lr` must be learning rates above zero; got {list(probe.lr)}")
    for name in ("pools", "seeds"):
        if not getattr(probe, name):
            raise CovpoolError(f"`{name}` must name at least one")
    chosen_pools(probe)


def _pool(label: str) -> tuple[str, dict[str, Any]]:
    name, *settings = label.split(":")
    names = covpool.list_pools()
    if name not in names:
        raise CovpoolError(f"`pools` names {name!r}, which is no pool{did_you_mean(name, names)}; there are {names}")
    options: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise CovpoolError(
                f"options of a pool are written NAME:option=value, as in isqrt:iterations=3; got {label!r}"
            )
        options[key] = typed(Text(value))
    return name, options
