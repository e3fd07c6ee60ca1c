"""Pool: what every pooling method shares, done once: checks, layout, reduction, precision, normalisation."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from covpool._check import check_choice, check_positive_int
from covpool._check_tensors import check_floating
from covpool._errors import CovpoolError
from covpool.ops import at_least_float32, outside_autocast
from covpool.pools.grid import Positions, flatten_positions, for_each, resize_map, resize_positions
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
    # Its feature tensors keep their own grids, and `_pool` gets tuples of masks and weights, one for each of them; else
    # all are brought to the positions of the first.
    own_positions: bool = False

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
        reductions = [Reduction(channels, reduce_to, activation=reduce_activation) for channels in inputs]
        self.reduce = nn.ModuleList(reductions)
        self._inputs = inputs
        self.channels = tuple(reduction.out_features for reduction in reductions)  # of what `_pool` gets
        pooled = pooled_size(*self.channels)
        self.normalize = make_normalization(normalize, pooled)
        self.project = _make_projection(pooled, project_to, groups)
        self.out_features = pooled if project_to is None else project_to

    def _pool(self, *x: Any, **positions: Any) -> Tensor:
        """The method: float32 or float64 features (b, n, c), mask and weights (b, n) or None -> (b, pooled size)."""
        raise NotImplementedError

    def forward(self, *features: Tensor, mask: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        """Pool features (b, c, h, w), (b, c, t, h, w) or (b, n, c) into (b, out_features).

        Args:
            features: one tensor for most pools. Several maps may differ in size: where a method needs them at the same
                positions, they are resized bilinearly to the first.
            mask: True = keep, (b, n) or the (first) map's own shape (b, h, w); an empty mask gives zeros.
            weights: a weight per position, in the same shapes.
        """
        return self._finished(self._apply_method(self._pool, features, mask, weights))

    @torch.no_grad()
    def descriptors(self, features: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """What the method sees of features after the reduction: the kept positions of all images, one per row.

        Pools that start from data take them: `pool.init_from(pool.descriptors(features))`.

        Shape: (b, c, h, w) or (b, n, c) -> (m, c), c after the reduction.
        """
        return self._apply_method(_rows, (features,), mask, None)

    def _apply_method(
        self,
        method: Callable[..., Tensor],
        features: tuple[Tensor, ...],
        mask: Tensor | None,
        weights: Tensor | None,
    ) -> Tensor:
        """What a method makes of features (b, n, c), after checks, layout, reduction and the choice of precision."""
        if len(features) != len(self._inputs):
            raise CovpoolError(f"{self._name()} takes {len(self._inputs)} feature tensor(s); got {len(features)}")
        shapes = [self._positions_shape(f, i) for i, f in enumerate(features)]
        kept = self._positions("mask", mask, features, shapes)
        weighted = self._positions("weights", weights, features, shapes)
        masks = for_each(kept, features)
        x = tuple(self._reduced(i, f, shapes[0][1:], masks[i]) for i, f in enumerate(features))
        if self.chooses_precision:
            return method(*x, mask=kept, weights=weighted)
        with outside_autocast(x[0]):
            return method(*(at_least_float32(f) for f in x), mask=kept, weights=weighted)

    def _finished(self, z: Tensor) -> Tensor:
        """Normalisation and projection, in float32."""
        if not len(self.normalize) and self.project is None:
            return z  # torch.export takes no autocast region with nothing in it
        with outside_autocast(z):
            z = self.normalize(z)
            return z if self.project is None else self.project(z.unsqueeze(-1)).squeeze(-1)

    def _positions(
        self, name: str, value: Tensor | None, features: tuple[Tensor, ...], shapes: list[tuple[int, ...]]
    ) -> Positions:
        """A mask or weights as (b, n), for every feature tensor where they keep their own grids."""
        flat = flatten_positions(name, value, shapes[0])
        if flat is None or not self.own_positions:
            return flat
        return tuple(
            resize_positions(flat, shapes[0][1:], shape[1:], tokens=self._is_tokens(f))
            for f, shape in zip(features, shapes, strict=True)
        )

    def _reduced(self, i: int, feature: Tensor, grid: tuple[int, ...], mask: Tensor | None) -> Tensor:
        """Feature i as (b, n, c) after its reduction, at the positions of `grid` or its own."""
        tokens = self._is_tokens(feature)
        if not self._is_channels_first(feature):
            feature = feature.movedim(-1, 1)
        if not self.own_positions:
            feature = resize_map(feature, grid, tokens=tokens)
        if feature.ndim == 3:
            feature = feature.unsqueeze(-1)
        elif feature.ndim == 5:
            feature = feature.flatten(2, 3)
        return self.reduce[i](feature, mask).flatten(2).mT

    def _is_tokens(self, feature: Tensor) -> bool:
        return feature.ndim == 3 and not self._is_channels_first(feature)

    def _is_channels_first(self, feature: Tensor) -> bool:
        return self.layout == "channels_first" or (self.layout == "auto" and feature.ndim > 3)

    def _positions_shape(self, feature: Tensor, i: int) -> tuple[int, ...]:
        """(b, *positions) of feature i, after checking its shape."""
        check_floating("features", feature)
        expected, axis = self._inputs[i], 1 if self._is_channels_first(feature) else -1
        allowed = (3,) if self.layout == "tokens" else (3, 4, 5)
        if feature.ndim not in allowed or feature.shape[axis] != expected:
            raise CovpoolError(f"{self._name()} expects {self._expected(expected)}; got {tuple(feature.shape)}")
        if feature.shape[0] and 0 in feature.shape:
            raise CovpoolError(f"{self._name()} needs at least one position; got {tuple(feature.shape)}")
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
        raise CovpoolError(f"{name} does not take {len(inputs)} feature tensor(s), in_features={inputs}") from error


def _rows(x: Tensor, *, mask: Tensor | None, weights: None) -> Tensor:  # (b, n, c) -> (m, c)
    return x.flatten(0, 1) if mask is None else x[mask]


def _make_projection(pooled: int, project_to: int | None, groups: int) -> nn.Module | None:
    """The grouped linear map after pooling, as a 1x1 convolution of the vector."""
    check_positive_int("groups", groups)
    if project_to is None:
        if groups != 1:
            raise CovpoolError(f"`groups` = {groups} needs `project_to`: the length after the grouped map")
        return None
    check_positive_int("project_to", project_to)
    if pooled % groups or project_to % groups:
        raise CovpoolError(
            f"`groups` = {groups} must divide the pooled length {pooled} and `project_to` = {project_to}"
        )
    return nn.Conv1d(pooled, project_to, 1, groups=groups)
