"""Backbone: a classifier without its pool and what stands after it, giving feature maps or tokens."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from covpool._errors import CovpoolError, WrongTypeError
from covpool.models._cut import cut_after_levels, cut_before_pool
from covpool.models._dry_run import Observation, observe, share
from covpool.pools import Layout

PrefixTokens = Literal["drop", "keep"]
MOST_PREFIX_TOKENS = 16  # class, distillation and register tokens; a larger surplus of tokens is something else
SPACE_TO_DEPTH = 12  # channels of a 2x2 space-to-depth stem: a first convolution of that many does not see the image


class Backbone(nn.Module):
    """Images -> features: `body` is the classifier without its end, with its own modules, names and parameters.

    Made by `make_backbone`.

    Attributes:
        body: the modules; timm's are asked through `forward_features`.
        removed: names of the classifier's modules that stood at or after its pool and are gone.
        unstrided: names of the modules of its last down-sampling, where that was removed.
        prefix: how many tokens stand before those of the image.
        keep_prefix: whether these are handed on with the others.
        channels: of each feature tensor.
        layout: of the features, in the words of `covpool.Pool`.
        image: (channels, h, w) of the dry run.
    """

    def __init__(self, body: nn.Module, method: str, removed: tuple[str, ...], image: tuple[int, ...]) -> None:
        super().__init__()
        self.body = body
        self.method = method
        self.removed = removed
        self.image = image
        self.unstrided: tuple[str, ...] = ()
        self.prefix = 0
        self.keep_prefix = False
        self.channels: tuple[int, ...] = ()
        self.layout: Layout = "auto"

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        features = self.body(x) if self.method == "forward" else getattr(self.body, self.method)(x)
        if not self.prefix or self.keep_prefix:
            return features
        if isinstance(features, tuple):
            return tuple(f[:, self.prefix :] for f in features)
        return features[:, self.prefix :]

    def extra_repr(self) -> str:
        removed = f"removed: {', '.join(self.removed) or 'nothing'}"
        stride = f"; stride 1: {', '.join(self.unstrided)}" if self.unstrided else ""
        return f"channels={self.channels}, layout={self.layout!r}, {removed}{stride}"


class Streams(nn.ModuleList):
    """Several backbones side by side: one image -> a tuple of features.

    Attributes:
        channels: Channels of each feature tensor.
        layout: Layout that all feature tensors share; "auto" for feature maps beside tokens.
    """

    def __init__(self, streams: Sequence[Backbone]) -> None:
        super().__init__(streams)
        self.channels = tuple(c for stream in streams for c in stream.channels)
        self.layout = _common_layout({stream.layout for stream in streams})

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        features: list[Tensor] = []
        for stream in self:
            output = stream(x)
            features += output if isinstance(output, tuple) else [output]
        return tuple(features)


def make_backbone(
    model: nn.Module,
    *,
    levels: tuple[str, ...] = (),
    prefix_tokens: PrefixTokens = "drop",
    input_size: tuple[int, int] | None = None,
) -> Backbone:
    """The features of a classifier. `model` keeps its form; its parameters and buffers are shared with the result."""
    shared = share(model)
    image = image_shape(model, input_size)
    own_method = callable(getattr(model, "forward_features", None))
    method = "forward_features" if own_method else "forward"
    if levels:
        backbone = Backbone(cut_after_levels(shared, levels, method), "forward", (), image)
    elif own_method:
        backbone = Backbone(shared, method, (), image)
    else:
        backbone = Backbone(cut_before_pool(shared, image), "forward", (), image)
    seen = _observe(backbone, model)
    backbone.removed = _remove_idle(backbone, model, seen)
    backbone.layout = _layout(seen.outputs, model)
    if backbone.layout == "tokens":
        backbone.prefix, backbone.keep_prefix = _count_prefix(seen, model), prefix_tokens == "keep"
    backbone.channels = tuple(s[1 if backbone.layout == "channels_first" else -1] for s in seen.outputs)
    return backbone


def image_shape(model: nn.Module, input_size: tuple[int, int] | None = None) -> tuple[int, ...]:
    """(channels, h, w) of an image that the model takes."""
    first = next((m.in_channels for m in model.modules() if isinstance(m, nn.Conv2d)), 3)
    channels = first if first < SPACE_TO_DEPTH else 3
    if input_size is not None:
        return channels, *input_size
    configuration = getattr(model, "pretrained_cfg", None) or {}
    candidates = (
        getattr(getattr(model, "patch_embed", None), "img_size", None),
        getattr(model, "image_size", None),
        tuple(configuration.get("input_size", ()))[1:],
    )
    size: Any = next((c for c in candidates if c), 224)
    return (channels, size, size) if isinstance(size, int) else (channels, *size)


def positions(backbone: Backbone, seen: Observation) -> int:
    """The number of positions of the last feature tensor, prefix tokens not counted."""
    shape = seen.outputs[-1]
    if backbone.layout == "tokens":
        return shape[1] - backbone.keep_prefix * backbone.prefix
    return shape[1] * shape[2] if backbone.layout == "channels_last" else shape[2] * shape[3]


def _observe(backbone: Backbone, model: nn.Module) -> Observation:
    """The dry run, refusing what no pool can use."""
    name = type(model).__name__
    try:
        seen = observe(backbone, backbone.image)
    except TypeError as error:
        raise WrongTypeError(f"{name}: {error}. Choose one level with levels=, or another backbone") from error
    for shape in seen.outputs:
        if len(shape) not in (3, 4):
            raise CovpoolError(
                f"{name} gives features of shape {shape}, already pooled: a pool needs maps (b, c, h, w) "
                "or tokens (b, n, c)"
            )
        if len(shape) == 3 and shape[1] == 1:
            raise CovpoolError(f"{name} gives a single token, shape {shape}: there is nothing to pool over")
    return seen


def _remove_idle(backbone: Backbone, model: nn.Module, seen: Observation) -> tuple[str, ...]:
    """Take out the parts with parameters that did not run: the end of the classifier. Names of all that is gone."""
    ran = {name.split(".")[1] for name in seen.called if name.startswith("body.")}
    children = dict(backbone.body.named_children())
    idle = [n for n, child in children.items() if n not in ran and next(child.parameters(), None) is not None]
    for name in idle:
        setattr(backbone.body, name, nn.Identity())
    present = {name for name, _ in backbone.body.named_modules()} - set(idle)
    names = (name for name, _ in model.named_modules())
    return tuple(name for name in names if name not in present and name.rpartition(".")[0] in present)


def _layout(shapes: tuple[tuple[int, ...], ...], model: nn.Module) -> Layout:
    """Which axis holds the channels. A map of a square image has its two equal axes side by side."""
    if {len(s) for s in shapes} == {3}:
        return "tokens"
    if {len(s) for s in shapes} == {3, 4}:
        return "auto"
    _, first, second, last = shapes[-1]
    width = getattr(model, "num_features", None)
    channels_last = width == last if width in (first, last) and first != last else first == second != last
    return "channels_last" if channels_last else "channels_first"


def _count_prefix(seen: Observation, model: nn.Module) -> int:
    """Tokens that stand for no position: told by the model, else those in surplus of its last map."""
    told = getattr(model, "num_prefix_tokens", None)
    if isinstance(told, int):
        return told
    tokens = seen.outputs[-1][1]
    surplus = [tokens - call.positions for call in seen.calls if call.leaf and call.shrinks]
    return min((s for s in surplus if 0 <= s <= MOST_PREFIX_TOKENS), default=0)


def _common_layout(layouts: set[Layout]) -> Layout:
    if len(layouts) == 1:
        return layouts.pop()
    if "channels_last" in layouts:
        raise CovpoolError(
            "the backbones must give features of one layout; got maps (b, h, w, c) from one of them: choose another"
        )
    return "auto"


def device_and_dtype(module: nn.Module) -> tuple[torch.device, torch.dtype]:
    """Where the parameters of a module are, and how they are stored."""
    parameter = next((p for p in module.parameters() if p.is_floating_point()), torch.empty(()))
    return parameter.device, parameter.dtype
