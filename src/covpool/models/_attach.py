"""attach: any timm or torchvision classifier with another pooling, in one call."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from torch import nn

from covpool._check import check_choice, check_positive_int
from covpool._errors import CovpoolError
from covpool.models._backbone import Backbone, PrefixTokens, Streams, device_and_dtype, make_backbone
from covpool.models._by_name import classifier_by_name, split_blocks
from covpool.models._head import make_head
from covpool.models._last_stride import remove_last_stride
from covpool.models._network import Network
from covpool.models._weights import load_backbone_weights
from covpool.pools import Layout, create_pool, pool_info

AUTO_WIDTH = 256  # channels after the reduction in most of the paper's networks

Source = str | nn.Module
ReduceTo = int | Sequence[int] | Literal["auto"] | None


def attach(
    backbone: Source | tuple[Source, ...],
    pool: str = "isqrt",
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

    The backbone's own pool and classifier go, with whatever stands after the pool (the repr names them), and its last
    down-sampling is removed. All other weights stay bit for bit. A backbone given as an object is not changed; the
    network shares its parameters.

    Args:
        backbone: a classifier, or its name: "resnet50" is timm's, "torchvision/resnet50" torchvision's,
            "covpool/alexnet" ours (vgg_f and vgg_m too), and "resnet50+se" has a block inserted (`covpool.insert`). A
            tuple of several for a pool of several feature tensors (two-stream networks).
        pool: one of `covpool.list_pools()`.
        num_classes: length of the logits.
        keep_last_stride: leave the down-sampling as it is.
        reduce_to: channels after 1x1 convolutions before pooling, None for no reduction. "auto" is 256 where the
            backbone gives more, and none for pools of first order, whose representation is short anyway.
        head_layers: widths of hidden layers in the classifier, for AlexNet and VGG.
        head_norm: hidden layers are FC-BN-ReLU, else FC-ReLU-Dropout.
        levels: names of modules of the backbone whose outputs feed the pool together, instead of the last features.
        prefix_tokens: class and register tokens of a transformer are dropped, or pooled with the others.
        input_size: of the images in the dry run that finds all this; by default what the backbone is made for.
        backbone_options: passed on where the backbone is built by name, such as {"img_size": 448}.
        pretrained: weights as timm or torchvision downloads them.
        weights: a local file of the backbone's weights instead (.safetensors, .pth), one per backbone.
        pool_options: of the pool, such as iterations=3 or normalize="l2".

    Shape: (b, 3, h, w) -> (b, num_classes), for every h, w that the backbone takes.

    >>> import torch, torchvision
    >>> network = attach(torchvision.models.resnet18(), "isqrt", num_classes=200, reduce_to=64)
    >>> network.forward_features(torch.randn(1, 3, 64, 64)).shape
    torch.Size([1, 512, 4, 4])
    >>> network(torch.randn(2, 3, 64, 64)).shape
    torch.Size([2, 200])
    """
    recipe = _recipe(dict(locals()))
    check_choice("prefix_tokens", prefix_tokens, ("drop", "keep"))
    check_positive_int("num_classes", num_classes)
    if pretrained and weights is not None:
        raise CovpoolError("`pretrained` and `weights` both give weights: choose one")
    sources = backbone if isinstance(backbone, tuple) else (backbone,)
    size = (input_size, input_size) if isinstance(input_size, int) else input_size
    streams = []
    for source, path in zip(sources, _one_each(weights, len(sources)), strict=True):
        model = source if isinstance(source, nn.Module) else _build(source, pretrained, backbone_options)
        stream = make_backbone(model, levels=tuple(levels), prefix_tokens=prefix_tokens, input_size=size)
        if path is not None:
            load_backbone_weights(stream, path)
        if not keep_last_stride:
            remove_last_stride(stream, source if isinstance(source, str) else type(source).__name__)
        streams.append(stream)
    channels = tuple(c for stream in streams for c in stream.channels)
    pool_options.setdefault("layout", _common_layout(streams))
    if "num_classes" in pool_info(pool).options:
        pool_options["num_classes"] = num_classes
    width = _auto_width(pool, channels) if reduce_to == "auto" else reduce_to
    made = create_pool(pool, channels if len(channels) > 1 else channels[0], reduce_to=width, **pool_options)
    if made.output == "scores":
        if made.out_features != num_classes:
            raise CovpoolError(
                f"{pool!r} gives {made.out_features} scores for {num_classes} classes: leave `project_to` out"
            )
        classifier: nn.Module = nn.Identity()
    else:
        classifier = make_head(made.out_features, num_classes, layers=head_layers, norm=head_norm)
    features = streams[0] if len(streams) == 1 else Streams(streams)
    device, dtype = device_and_dtype(features)
    return Network(features, made.to(device, dtype), classifier.to(device, dtype), recipe=recipe)


def _build(name: str, pretrained: bool, options: dict[str, Any] | None) -> nn.Module:
    if "fb" in split_blocks(name)[1]:
        raise CovpoolError(
            f"{name!r}: 'fb' is a classifier, which a pool replaces: take the pool 'fbn' on the backbone (with the "
            "block 'tanh', as published), or covpool.insert"
        )
    return classifier_by_name(name, pretrained=pretrained, **(options or {}))


def _one_each(weights: Any, count: int) -> tuple[Any, ...]:
    if weights is None:
        return (None,) * count
    paths = weights if isinstance(weights, tuple) else (weights,)
    if len(paths) != count:
        raise CovpoolError(f"`weights` must name one file per backbone, {count}; got {len(paths)}")
    return paths


def _auto_width(pool: str, channels: tuple[int, ...]) -> int | None:
    return AUTO_WIDTH if pool_info(pool).order != "1" and max(channels) > AUTO_WIDTH else None


def _common_layout(streams: list[Backbone]) -> Layout:
    layouts = {stream.layout for stream in streams}
    if len(layouts) == 1:
        return layouts.pop()
    if "channels_last" in layouts:
        raise CovpoolError("one backbone gives maps (b, h, w, c) and the other does not: choose two of one layout")
    return "auto"


def _recipe(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `attach` from which the architecture can be built again; a backbone object stands as None."""
    backbone = arguments["backbone"]
    names = backbone if isinstance(backbone, tuple) else (backbone,)
    stored = {key: value for key, value in arguments.items() if key not in ("pretrained", "weights")}
    if not all(isinstance(name, str) for name in names):
        stored["backbone"] = None
    return {"kind": "attach", **{key: _as_json(value) for key, value in stored.items()}}


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_json(v) for key, v in value.items()}
    return [_as_json(v) for v in value] if isinstance(value, (tuple, list)) else value
