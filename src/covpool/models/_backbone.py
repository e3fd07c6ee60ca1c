"""Backbone: a classifier without its pool and the modules after it, which gives feature maps or tokens."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from covpool._errors import CovpoolError, WrongTypeError
from covpool.models._cut import cut_after_levels, cut_before_pool
from covpool.models._dry_run import Observation, observe, share
from covpool.models._input_settings import InputSettings
from covpool.pools import Layout

PrefixTokens = Literal["drop", "keep"]
MOST_PREFIX_TOKENS = 16  # class, distillation and register tokens; more extra tokens than that are something else
SPACE_TO_DEPTH = 12  # channels after a 2x2 space-to-depth stem; a first convolution with 12 does not see the image


class Backbone(nn.Module):
    """Images -> features: a classifier without its end, with its own modules, names and parameters.

    `make_backbone` builds it.

    Attributes:
        body: The remaining modules. Those of timm run through their `forward_features`.
        removed: Names of the modules at or after the classifier's pool, which were removed.
        unstrided: Names of the modules of the last stride, if it was removed.
        prefix: Number of tokens before those of the image.
        keep_prefix: Whether these tokens are part of the features.
        channels: Channels of each feature tensor.
        layout: Layout of the features, as `covpool.Pool` names it.
        image: Shape (channels, h, w) of the image in the dry run.
        input_settings: How its pre-trained weights expect images.
    """

    def __init__(self, body: nn.Module, method: str, removed: tuple[str, ...], image: tuple[int, ...]) -> None:
        super().__init__()
        self.body = body
        self.method = method
        self.removed = removed
        self.image = image
        self.input_settings = InputSettings()
        self.unstrided: tuple[str, ...] = ()
        self.dense_attention = False
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
    """Several backbones side by side: one image -> a tuple of features."""

    @property
    def channels(self) -> tuple[int, ...]:
        """Channels of each feature tensor."""
        return tuple(c for stream in self._streams() for c in stream.channels)

    @property
    def layout(self) -> Layout:
        """Layout that all feature tensors share; "auto" for feature maps beside tokens."""
        layouts = {stream.layout for stream in self._streams()}
        if len(layouts) == 1:
            return layouts.pop()
        if "channels_last" in layouts:
            raise CovpoolError(
                "the backbones must give features of one layout; got maps (b, h, w, c) from one of them: choose another"
            )
        return "auto"

    def _streams(self) -> list[Backbone]:
        return [stream for stream in self if isinstance(stream, Backbone)]

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
    """Cut a classifier down to its features. `model` is not changed; it shares its parameters and buffers."""
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
    """The shape (channels, h, w) of an image that the model takes."""
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
    """The number of positions of the last feature tensor, without prefix tokens."""
    shape = seen.outputs[-1]
    if backbone.layout == "tokens":
        return shape[1] - backbone.keep_prefix * backbone.prefix
    return shape[1] * shape[2] if backbone.layout == "channels_last" else shape[2] * shape[3]


def _observe(backbone: Backbone, model: nn.Module) -> Observation:
    """Run the backbone dry, and refuse features that no pool can use."""
    name = type(model).__name__
    try:
        seen = observe(backbone, backbone.image)
    except TypeError as error:
        raise WrongTypeError(f"{name}: {error}. Choose one level with levels=, or another backbone") from error
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise CovpoolError(
            f"{name} must run on images of shape {backbone.image}; it fails with: {reason}. Give another `input_size`, "
            "or other `backbone_options`"
        ) from error
    for shape in seen.outputs:
        if len(shape) not in (3, 4):
            raise CovpoolError(
                f"the features of {name} must be maps (b, c, h, w) or tokens (b, n, c); got {shape}, which are already "
                "pooled: choose another backbone or level"
            )
        if len(shape) == 3 and shape[1] == 1:
            raise CovpoolError(f"the features of {name} must have several positions; got a single token, shape {shape}")
    return seen


def _remove_idle(backbone: Backbone, model: nn.Module, seen: Observation) -> tuple[str, ...]:
    """Remove the modules with parameters that did not run, the end of the classifier; return the removed names."""
    ran = {name.split(".")[1] for name in seen.called if name.startswith("body.")}
    children = dict(backbone.body.named_children())
    idle = [n for n, child in children.items() if n not in ran and next(child.parameters(), None) is not None]
    for name in idle:
        setattr(backbone.body, name, nn.Identity())
    present = {name for name, _ in backbone.body.named_modules()} - set(idle)
    names = (name for name, _ in model.named_modules())
    return tuple(name for name in names if name not in present and name.rpartition(".")[0] in present)


def _layout(shapes: tuple[tuple[int, ...], ...], model: nn.Module) -> Layout:
    """Find the axis of the channels. The map of a square image has two equal axes side by side."""
    if {len(s) for s in shapes} == {3}:
        return "tokens"
    if {len(s) for s in shapes} == {3, 4}:
        return "auto"
    _, first, second, last = shapes[-1]
    width = getattr(model, "num_features", None)
    channels_last = width == last if width in (first, last) and first != last else first == second != last
    return "channels_last" if channels_last else "channels_first"


def _count_prefix(seen: Observation, model: nn.Module) -> int:
    """Count the tokens without a position: as the model says, or those that exceed the positions of its last map."""
    told = getattr(model, "num_prefix_tokens", None)
    if isinstance(told, int):
        return told
    tokens = seen.outputs[-1][1]
    surplus = [tokens - call.positions for call in seen.calls if call.leaf and call.shrinks]
    return min((s for s in surplus if 0 <= s <= MOST_PREFIX_TOKENS), default=0)


def device_and_dtype(module: nn.Module) -> tuple[torch.device, torch.dtype]:
    """The device and the dtype of the parameters of a module."""
    parameter = next((p for p in module.parameters() if p.is_floating_point()), torch.empty(()))
    return parameter.device, parameter.dtype
