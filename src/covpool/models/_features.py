"""make_features: the first half of a network, a classifier without its own pool and classification layers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from covpool._errors import CovpoolError, check_choice
from covpool.models._backbone import Backbone, PrefixTokens, Streams, make_backbone
from covpool.models._by_name import classifier_by_name, split_blocks
from covpool.models._input_settings import settings_of
from covpool.models._last_stride import remove_last_stride
from covpool.models._weights import load_backbone_weights

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
    """Turn a classifier into a feature extractor: its pool and classifier go, and its last down-sampling is removed.

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
