"""attach: any timm or torchvision classifier with another pooling, in one call; make_features: its first half."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from covpool._errors import CovpoolError, WrongTypeError, check_choice, check_positive_int
from covpool.models._architecture import describe_attached
from covpool.models._backbone import Backbone, PrefixTokens, Streams, device_and_dtype, make_backbone
from covpool.models._by_name import classifier_by_name, split_blocks
from covpool.models._head import ReduceTo, make_head
from covpool.models._input_settings import settings_of
from covpool.models._last_stride import has_dense_form, remove_last_stride
from covpool.models._network import Network
from covpool.models._weights import load_backbone_weights
from covpool.pools import Pool

Source = str | nn.Module


def make_features(
    backbone: Source | tuple[Source, ...],
    *,
    keep_last_stride: bool = False,
    levels: Sequence[str] = (),
    prefix_tokens: PrefixTokens = "drop",
    input_size: int | tuple[int, int] | None = None,
    backbone_options: dict[str, Any] | None = None,
    pretrained: bool = False,
    weights: str | Path | tuple[str | Path, ...] | None = None,
) -> Backbone | Streams:
    """Turn a classifier into a feature extractor: its pool and classifier go, and its last stride is removed.

    The arguments are those of `attach`. The result knows its `channels` and its `layout`, from which `make_head` builds
    the other half of a network.

    Shape: (b, 3, h, w) -> feature maps or tokens; a tuple of them for several backbones or levels.

    >>> import torch
    >>> features = make_features("torchvision/resnet18")
    >>> features.channels, features(torch.randn(1, 3, 64, 64)).shape
    ((512,), torch.Size([1, 512, 4, 4]))
    """
    check_choice("prefix_tokens", prefix_tokens, ("drop", "keep"))
    if pretrained and weights is not None:
        raise CovpoolError("`pretrained` and `weights` both give weights: choose one")
    sources = backbone if isinstance(backbone, tuple) else (backbone,)
    if not sources:
        raise CovpoolError(
            "`backbone` must be a classifier, its name, or a tuple with at least one; got an empty tuple"
        )
    size = (input_size, input_size) if isinstance(input_size, int) else input_size
    streams = []
    for source, path in zip(sources, _one_each(weights, len(sources)), strict=True):
        model = source if isinstance(source, nn.Module) else _build(source, pretrained, backbone_options)
        stream = make_backbone(model, levels=tuple(levels), prefix_tokens=prefix_tokens, input_size=size)
        stream.input_settings = settings_of(model, source, path or getattr(model, "weights_file", None))
        if path is not None:
            load_backbone_weights(stream, path)
        if not keep_last_stride:
            remove_last_stride(stream, source if isinstance(source, str) else type(source).__name__)
        streams.append(stream)
    return streams[0] if len(streams) == 1 else Streams(streams)


def _build(name: str, pretrained: bool, options: dict[str, Any] | None) -> nn.Module:
    if "fb" in split_blocks(name)[1]:
        raise CovpoolError(
            f"{name!r}: 'fb' is a classifier, which a pool replaces: use the pool 'fbn' on the backbone (with the "
            "block 'tanh', as published), or covpool.insert"
        )
    for key in ("name", "pretrained"):
        if key in (options or {}):
            raise CovpoolError(
                f"`backbone_options` must not set {key!r}, which is an argument of its own: leave it out"
            )
    return classifier_by_name(name, pretrained=pretrained, **(options or {}))


def _one_each(weights: Any, count: int) -> tuple[Any, ...]:
    if weights is None:
        return (None,) * count
    paths = weights if isinstance(weights, tuple) else (weights,)
    if len(paths) != count:
        raise CovpoolError(f"`weights` must name one file per backbone, {count}; got {len(paths)}")
    return paths


def attach(
    backbone: Source | tuple[Source, ...],
    pool: str | Pool = "isqrt",
    num_classes: int = 1000,
    *,
    keep_last_stride: bool = False,
    reduce_to: ReduceTo = "auto",
    head_layers: Sequence[int] = (),
    head_norm: bool = True,
    levels: Sequence[str] = (),
    prefix_tokens: PrefixTokens = "drop",
    input_size: int | tuple[int, int] | None = None,
    backbone_options: dict[str, Any] | None = None,
    pretrained: bool = False,
    weights: str | Path | tuple[str | Path, ...] | None = None,
    **pool_options: Any,
) -> Network:
    """Put a pool and a new classifier on a backbone: features -> pool -> classifier.

    The backbone's own pool and classifier are removed, with every module after the pool (the repr names them), and its
    last stride too. All other weights stay bit for bit. A backbone given as an object is not changed; the
    network shares its parameters. `make_features` and `make_head` build the two halves alone.

    Args:
        backbone: A classifier, or its name: "resnet50" is timm's, "torchvision/resnet50" torchvision's,
            "covpool/alexnet" ours (vgg_f and vgg_m too), and "resnet50+se" has a block inserted (`covpool.insert`). A
            tuple of several for a pool of several feature tensors (two-stream networks).
        pool: One of `covpool.list_pools()`, or a `covpool.Pool` for the backbone's channels.
        num_classes: Length of the logits.
        keep_last_stride: Keep the last stride.
        reduce_to: Channels after 1x1 convolutions before pooling, None for no reduction. "auto" is 256 where the
            backbone gives more, and no reduction for pools of first order, whose representation is short anyway.
        head_layers: Widths of hidden layers in the classifier, for AlexNet and VGG.
        head_norm: Whether hidden layers are FC-BN-ReLU; otherwise they are FC-ReLU-Dropout.
        levels: Names of modules of the backbone whose outputs feed the pool together, instead of the last features.
        prefix_tokens: Whether class and register tokens of a transformer are dropped or pooled with the others.
        input_size: Image size of the dry run that finds the shapes; by default the size the backbone is made for.
        backbone_options: Options of a backbone built by name, such as {"img_size": 448}.
        pretrained: Download the weights that timm or torchvision offers.
        weights: A local file of the backbone's weights instead (.safetensors, .pth), one per backbone.
        pool_options: Options of the pool, such as iterations=3 or normalize="l2".

    Shape: (b, 3, h, w) -> (b, num_classes), for every h, w that the backbone takes.

    >>> import torch, torchvision
    >>> network = attach(torchvision.models.resnet18(), "isqrt", num_classes=200, reduce_to=64)
    >>> network.forward_features(torch.randn(1, 3, 64, 64)).shape
    torch.Size([1, 512, 4, 4])
    >>> network(torch.randn(2, 3, 64, 64)).shape
    torch.Size([2, 200])
    """
    check_positive_int("num_classes", num_classes)
    if not isinstance(pool, (str, Pool)):
        raise WrongTypeError(f"`pool` must be the name of a pool or a covpool.Pool; got {type(pool).__name__}")
    architecture = describe_attached(dict(locals()))
    features = make_features(
        backbone,
        keep_last_stride=keep_last_stride,
        levels=levels,
        prefix_tokens=prefix_tokens,
        input_size=input_size,
        backbone_options=backbone_options,
        pretrained=pretrained,
        weights=weights,
    )
    if isinstance(pool, str):
        pool_options.setdefault("layout", features.layout)
    options = {"reduce_to": reduce_to, "layers": head_layers, "norm": head_norm, **pool_options}
    made, classifier = make_head(pool, features.channels, num_classes, **options)
    device, dtype = device_and_dtype(features)
    architecture = replace(architecture, dense_form=has_dense_form(features))
    return Network(features, made.to(device, dtype), classifier.to(device, dtype), architecture=architecture)
