"""Pool: what every pooling method shares, done once: checks, layout, reduction, precision, normalisation."""

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

from torch import Tensor, nn

from covpool._check import check_choice, check_floating, check_positions, check_positive_int
from covpool.ops._precision import at_least_float32, outside_autocast
from covpool.pools.normalize import Normalize, make_normalization
from covpool.pools.reduction import Activation, Reduction

Layout = Literal["auto", "channels_first", "channels_last", "tokens"]
LAYOUTS: tuple[Layout, ...] = ("auto", "channels_first", "channels_last", "tokens")


class Pool(nn.Module):
    """The base of all pools: features in, one vector per image out.

    A method implements `_pool`, the mathematics on float32 or float64 features (b, n, c), and tells its length.

    Args:
        in_features: channels of the features; a tuple for a pool of several feature tensors.
        pooled_size: the length of what `_pool` returns, as a function of the channels it gets (one argument per feature
            tensor).
        layout: "auto" takes 4-D and 5-D inputs as maps with channels second and 3-D ones as tokens (b, n, c);
            "channels_first" (b, c, ...), "channels_last" (b, ..., c) and "tokens" (b, n, c) say it outright.
        reduce_to: channels after a 1x1 convolution, batch norm and ReLU before pooling; several for a chain of them.
        reduce_activation: "relu6" takes the place of that ReLU, as in GCP_Optimization's MobileNetV2.
        normalize: after pooling: "epn" (element-wise signed square root and l2), "l2", "bn" (batch norm over the
            vector), or a chain of them.
        project_to: length after a grouped linear map at the end.
        groups: of that map.
    """

    output: Literal["features", "scores"] = "features"
    # Its operations read autocast and half-precision features themselves; else `_pool` gets float32 outside autocast.
    chooses_precision: bool = False

    def __init__(
        self,
        in_features: int | tuple[int, ...],
        pooled_size: Callable[..., int],
        *,
        layout: Layout = "auto",
        reduce_to: int | Sequence[int] | None = None,
        reduce_activation: Activation = "relu",
        normalize: Normalize | Sequence[Normalize] | None = None,
        project_to: int | None = None,
        groups: int = 1,
    ) -> None:
        super().__init__()
        check_choice("layout", layout, LAYOUTS)
        inputs = in_features if isinstance(in_features, tuple) else (in_features,)
        for channels in inputs:
            check_positive_int("in_features", channels)
        _check_count(self._name(), pooled_size, inputs)
        self.in_features = in_features
        self.layout = layout
        self.reduce = nn.ModuleList(Reduction(channels, reduce_to, activation=reduce_activation) for channels in inputs)
        self._inputs = inputs
        pooled = pooled_size(*(reduction.out_features for reduction in self.reduce))
        self.normalize = make_normalization(normalize, pooled)
        self.project = _make_projection(pooled, project_to, groups)
        self.out_features = pooled if project_to is None else project_to

    def _pool(self, *x: Any, **positions: Any) -> Tensor:
        """The method: float32 or float64 features (b, n, c), mask and weights (b, n) or None -> (b, pooled size)."""
        raise NotImplementedError

    def forward(self, *features: Tensor, mask: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        """Pool features (b, c, h, w), (b, c, t, h, w) or (b, n, c) into (b, out_features).

        Args:
            features: one tensor for most pools.
            mask: True = keep, (b, n) or the map's own shape (b, h, w); an empty mask gives zeros.
            weights: a weight per position, in the same shapes.
        """
        if len(features) != len(self._inputs):
            raise ValueError(f"{self._name()} takes {len(self._inputs)} feature tensor(s); got {len(features)}")
        positions = self._positions_shape(features[0], 0)
        mask = _flat("mask", mask, positions)
        weights = _flat("weights", weights, positions)
        x = tuple(self._reduced(i, f, mask) for i, f in enumerate(features))
        if self.chooses_precision:
            return self._finished(self._pool(*x, mask=mask, weights=weights))
        with outside_autocast(x[0]):
            return self._finished(self._pool(*(at_least_float32(f) for f in x), mask=mask, weights=weights))

    def _finished(self, z: Tensor) -> Tensor:
        """Normalisation and projection, in float32."""
        if not len(self.normalize) and self.project is None:
            return z  # torch.export takes no autocast region with nothing in it
        with outside_autocast(z):
            z = self.normalize(z)
            return z if self.project is None else self.project(z.unsqueeze(-1)).squeeze(-1)

    def _reduced(self, i: int, feature: Tensor, mask: Tensor | None) -> Tensor:
        """Feature i as (b, n, c) after its reduction."""
        self._positions_shape(feature, i)
        if not self._is_channels_first(feature):
            feature = feature.movedim(-1, 1)
        if feature.ndim == 3:
            feature = feature.unsqueeze(-1)
        elif feature.ndim == 5:
            feature = feature.flatten(2, 3)
        return self.reduce[i](feature, mask).flatten(2).mT

    def _is_channels_first(self, feature: Tensor) -> bool:
        return self.layout == "channels_first" or (self.layout == "auto" and feature.ndim > 3)

    def _positions_shape(self, feature: Tensor, i: int) -> tuple[int, ...]:
        """(b, *positions) of feature i, after checking its shape."""
        check_floating("features", feature)
        expected, axis = self._inputs[i], 1 if self._is_channels_first(feature) else -1
        allowed = (3,) if self.layout == "tokens" else (3, 4, 5)
        if feature.ndim not in allowed or feature.shape[axis] != expected:
            raise ValueError(f"{self._name()} expects {self._expected(expected)}; got {tuple(feature.shape)}")
        if feature.shape[0] and 0 in feature.shape:
            raise ValueError(f"{self._name()} needs at least one position; got {tuple(feature.shape)}")
        shape = tuple(feature.shape)
        return (shape[0], *shape[2:]) if axis == 1 else shape[:-1]

    def _expected(self, channels: int) -> str:
        maps = f"maps (b, {channels}, h, w) or (b, {channels}, t, h, w)"
        return {
            "auto": f"{maps} or tokens (b, n, {channels})",
            "channels_first": f"(b, {channels}, n) or {maps}",
            "channels_last": f"(b, n, {channels}), (b, h, w, {channels}) or (b, t, h, w, {channels})",
            "tokens": f"tokens (b, n, {channels})",
        }[self.layout]

    def _name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, layout={self.layout!r}"


def _check_count(name: str, pooled_size: Callable[..., int], inputs: tuple[int, ...]) -> None:
    """Refuse more or fewer feature tensors than the method takes."""
    try:
        inspect.signature(pooled_size).bind(*inputs)
    except TypeError as error:
        raise ValueError(f"{name} does not take {len(inputs)} feature tensor(s), in_features={inputs}") from error


def _flat(name: str, value: Tensor | None, positions: tuple[int, ...]) -> Tensor | None:
    """A mask or weights as (b, n)."""
    if value is None:
        return None
    flat = (positions[0], math.prod(positions[1:]))
    check_positions(name, value, *dict.fromkeys((positions, flat)))
    return value.reshape(flat)


def _make_projection(pooled: int, project_to: int | None, groups: int) -> nn.Module | None:
    """The grouped linear map after pooling, as a 1x1 convolution of the vector."""
    check_positive_int("groups", groups)
    if project_to is None:
        if groups != 1:
            raise ValueError(f"`groups` = {groups} needs `project_to`: the length after the grouped map")
        return None
    check_positive_int("project_to", project_to)
    if pooled % groups or project_to % groups:
        raise ValueError(f"`groups` = {groups} must divide the pooled length {pooled} and `project_to` = {project_to}")
    return nn.Conv1d(pooled, project_to, 1, groups=groups)
