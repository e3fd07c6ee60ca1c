"""The base class of all pools: checks, layout, reduction, masks, precision, normalization, projection."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from covpool._check_tensors import check_floating
from covpool._errors import CovpoolError, WrongTypeError, check_positive_int
from covpool._registry import register as register
from covpool.ops import at_least_float32, outside_autocast, unvech
from covpool.pools._grid import Positions, flatten_positions, for_each, resize_map, resize_positions
from covpool.pools._kept_positions import pool_by_count, zero_vectors
from covpool.pools._normalize import Normalize, make_normalization
from covpool.pools._options import PositiveInt as PositiveInt
from covpool.pools._options import check_options, declared_options, option_types, own_options, signature
from covpool.pools._principal_axes import Summed
from covpool.pools._reduction import Activation, ReduceKind, Reduction
from covpool.pools._start_reductions import start_reductions
from covpool.pools._vectorization import triangle

Layout = Literal["auto", "channels_first", "channels_last", "tokens"]


class Pool(nn.Module):
    """The base of all pools: features in, one vector per image out.

    A method implements `_pool`, the mathematics on features (b, n, c). Its signature declares what it handles:

    * `_pool(self, x)`: the base gathers the positions that a mask keeps and calls `_pool` once per distinct number of
      them; it also deals with empty masks and empty batches, and refuses weights.
    * `_pool(self, x, *, mask, weights)`: the method handles masks and weights, (b, n) or None, empty ones included.
      Choose this form if masked calls must compile or must not wait for the device.

    The options of a method are class attributes with an annotation and a default. The base makes them keyword
    arguments, checks those that are annotated as a Literal or as `PositiveInt`, and sets them on the pool, where
    `pooled_size`, `_build` and `_pool` find them.

    Args:
        in_features: Number of channels of the features; a tuple for a pool of several feature tensors.
        layout: "auto" takes 4-D and 5-D inputs as maps with channels second and 3-D inputs as tokens (b, n, c).
            "channels_first" (b, c, ...), "channels_last" (b, ..., c) and "tokens" (b, n, c) fix the layout.
        reduce_to: Number of channels after a 1x1 convolution before pooling; several numbers make a chain.
        reduce_kind: "conv_bn_relu" puts batch norm and ReLU after each of these convolutions, as in the paper; "linear"
            is the convolution with a bias alone, usually started by `init_reduction`.
        reduce_activation: "relu6" replaces the ReLU of the reduction, as in GCP_Optimization's MobileNetV2.
        normalize: Normalization after pooling: "epn" (signed square root of every element, then unit length), "l2",
            "bn" (batch norm over the vector), or a chain of them.
        project_to: Length of the output of a grouped linear map at the end.
        groups: Number of groups of the linear map.
        own: Options of the method.
    """

    # "scores": the pool is itself the classifier. It takes `num_classes`, and its `representation` is another vector.
    output: Literal["features", "scores"] = "features"
    # The method reads autocast and half-precision features itself. Otherwise `_pool` gets float32 outside autocast.
    chooses_precision: bool = False
    # Feature tensors keep their own grids, and `_pool` gets one mask and one weight tensor for each of them. Otherwise
    # all of them are resized to the positions of the first.
    own_positions: bool = False
    # The matrix that the method normalizes, if its vector is the result: a symmetric matrix of the order of the
    # channels, written in full or as its upper triangle. Spectra are available for such pools.
    normalizes: Literal["covariance", "moment"] | None = None

    # A method that starts from data takes descriptors (k, c) after the reduction.
    init_from: Callable[..., None] | None = None

    handles_mask: ClassVar[bool] = False
    handles_weights: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        parameters = inspect.signature(cls._pool).parameters
        setattr(cls, "__signature__", signature(cls, Pool))  # noqa: B010
        cls.handles_mask, cls.handles_weights = "mask" in parameters, "weights" in parameters
        if cls.handles_weights and not cls.handles_mask:
            raise CovpoolError(f"{cls.__name__}._pool must take `mask` beside `weights`")

    def __new__(cls, *_: Any, **options: Any) -> Self:
        check_options(options, cls.option_types(extras=True))
        return super().__new__(cls)

    @classmethod
    def own_options(cls) -> dict[str, Any]:
        """Return the options of the method itself and their defaults."""
        return own_options(cls, Pool)

    @classmethod
    def option_types(cls, *, extras: bool = False) -> dict[str, Any]:
        """Return the annotations of all options, the method's own first; `Annotated` types are kept with `extras`."""
        return option_types(cls, Pool, extras=extras)

    def __init__(
        self,
        in_features: int | tuple[int, ...],
        *,
        layout: Layout = "auto",
        reduce_to: int | Sequence[int] | None = None,
        reduce_kind: ReduceKind = "conv_bn_relu",
        reduce_activation: Activation | None = None,
        normalize: Normalize | Sequence[Normalize] | None = None,
        project_to: PositiveInt | None = None,
        groups: PositiveInt = 1,
        **own: Any,
    ) -> None:
        super().__init__()
        inputs = in_features if isinstance(in_features, tuple) else (in_features,)
        for channels in inputs:
            check_positive_int("in_features", channels)
        self._check_count(inputs)
        self.options = self._take_options(own)
        self.in_features = in_features
        self.layout = layout
        reductions = [
            Reduction(channels, reduce_to, kind=reduce_kind, activation=reduce_activation) for channels in inputs
        ]
        self.reduce = nn.ModuleList(reductions)
        self._inputs = inputs
        self.channels = tuple(reduction.out_features for reduction in reductions)  # of the features that `_pool` gets
        self.pooled_features = self.pooled_size(*self.channels)
        self.normalize = make_normalization(normalize, self.pooled_features)
        self.project = _make_projection(self.pooled_features, project_to, groups)
        self._reduces = any(len(reduction.convolutions) for reduction in reductions)
        self.out_features = self.pooled_features if project_to is None else project_to
        self._build()

    def _take_options(self, given: dict[str, Any]) -> dict[str, Any]:
        """Set the declared options on the pool and return them."""
        options = declared_options(type(self), Pool)
        if unknown := given.keys() - options.keys():
            raise WrongTypeError(f"{self._name()} has no option {', '.join(sorted(unknown))}")
        options |= given
        for key, value in options.items():
            setattr(self, key, value)
        return options

    def _build(self) -> None:
        """Check the options of the method, and make its parameters for `self.channels`."""

    def pooled_size(self, *channels: Any, **_: Any) -> int:
        """Return the length of the vector that `_pool` returns; by default the number of channels.

        Args:
            channels: Number of channels that `_pool` gets, one argument per feature tensor.
        """
        return sum(channels)

    def _check_count(self, inputs: tuple[int, ...]) -> None:
        """Refuse a number of feature tensors that the method does not take."""
        parameters = inspect.signature(self._pool).parameters.values()
        try:
            inspect.Signature([p for p in parameters if p.kind is not p.KEYWORD_ONLY]).bind(*inputs)
        except TypeError as error:
            raise CovpoolError(
                f"{self._name()} does not take {len(inputs)} feature tensor(s), in_features={inputs}"
            ) from error

    def _pool(self, *x: Any, **positions: Any) -> Tensor:
        """Pool float32 or float64 features (b, n, c) into (b, pooled size)."""
        raise NotImplementedError

    def multiply_adds(self, n: int, c: int) -> float:
        """Return the cost of `_pool` for one image of n positions and c channels; by default n c."""
        return n * c

    def forward(self, *features: Tensor, mask: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        """Pool features (b, c, h, w), (b, c, t, h, w) or (b, n, c) into (b, out_features).

        Args:
            features: One tensor for most pools. Several maps may differ in size: if a method needs them at the same
                positions, they are resized bilinearly to the first.
            mask: True = keep, (b, n) or the shape (b, h, w) of the first map; an empty mask gives zeros.
            weights: One weight per position, in the same shapes.
        """
        if weights is not None and not self.handles_weights:
            raise CovpoolError(f"{self._name()} does not support `weights`: leave them out, or use `mask`")
        return self._finished(self._apply_method(self._pool_kept, features, mask, weights))

    def representation(self, *features: Tensor, mask: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        """Return the vector that suits another classifier, such as an SVM: by default what `forward` returns."""
        return self(*features, mask=mask, weights=weights)

    @torch.no_grad()
    def descriptors(self, features: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """Return the features after the reduction, one row for each kept position of all images.

        Pools that start from data take them: `pool.init_from(pool.descriptors(features))`.

        Shape: (b, c, h, w) or (b, n, c) -> (m, c), c after the reduction.
        """
        return self._apply_method(_rows, (features,), mask, None)

    @property
    def has_reduction(self) -> bool:
        """Whether features are reduced before pooling."""
        return any(True for _ in self.reduce.parameters())

    @torch.no_grad()
    def init_reduction(
        self,
        batches: Iterable[Tensor | tuple[Tensor, ...]],
        *,
        masks: Iterable[Tensor] | None = None,
        summed: Summed = lambda x: x,
    ) -> None:
        """Start the reduction from data: the principal axes of the descriptors, centered.

        Every feature tensor gets axes of its own, found at the positions that the pool sees. A batch norm gets
        their mean and variance. Call it before `init_from`, which takes descriptors after the reduction.

        Args:
            batches: Features as `forward` takes them, one tensor (or tuple) per batch. They are read once for every
                convolution of the reduction.
            masks: One mask per batch.
            summed: Sums a tensor over all processes, if each has batches of its own.

        >>> import covpool
        >>> pool = covpool.create_pool("isqrt", 32, reduce_to=8, reduce_kind="linear")
        >>> pool.init_reduction([torch.randn(4, 32, 7, 7) for _ in range(3)])
        """
        start_reductions(self, batches, masks, summed)

    def _pool_kept(self, *x: Tensor, mask: Positions = None, weights: Positions = None) -> Tensor:
        """Call `_pool` with what it handles. For a method without masks, gather the kept positions first."""
        if self.handles_weights:
            return self._pool(*x, mask=mask, weights=weights)
        if self.handles_mask:
            return self._pool(*x, mask=mask)
        if x[0].shape[0] == 0:
            return zero_vectors(x[0], self.pooled_features)
        if mask is None:
            return self._pool(*x)
        masks = [m for m in for_each(mask, x) if m is not None]
        return pool_by_count(self._pool, x, masks, self.pooled_features)

    def _matrix(self, x: Tensor) -> Tensor:  # (b, n, c) -> (b, c, c)
        """Return the normalized matrix that the pooled vector consists of; see `normalizes`."""
        z, c = self._pool_kept(x), x.shape[-1]
        return unvech(z) if z.shape[-1] == triangle(c) else z.unflatten(-1, (c, c))

    def _apply_method(
        self,
        method: Callable[..., Tensor],
        features: tuple[Tensor, ...],
        mask: Tensor | None,
        weights: Tensor | None,
    ) -> Tensor:
        """Check and reduce the features, choose the precision, and call `method` on features (b, n, c)."""
        shapes = self._shapes(features)
        kept = self._positions("mask", mask, features, shapes)
        weighted = self._positions("weights", weights, features, shapes)
        x = self._rows(features, shapes, kept)
        if self.chooses_precision:
            return method(*x, mask=kept, weights=weighted)
        with outside_autocast(x[0]):
            return method(*map(at_least_float32, x), mask=kept, weights=weighted)

    def _rows(
        self, features: tuple[Tensor, ...], shapes: list[tuple[int, ...]], kept: Positions
    ) -> list[Tensor]:  # (b, n, c) each
        """Return the features after the reduction, one row per position."""
        if not self._reduces and len(features) == 1:
            (x,) = features
            if self._is_channels_first(x):
                return [x.flatten(2).mT]
            return [x if x.ndim == 3 else x.flatten(1, -2)]
        maps, masks = self._maps(features, shapes), for_each(kept, features)
        return [self.reduce[i](x, masks[i]).flatten(2).mT for i, x in enumerate(maps)]

    def masked_maps(self, features: tuple[Tensor, ...], mask: Tensor | None) -> list[tuple[Tensor, Tensor | None]]:
        """Return what the reductions get: each feature tensor as a map (b, c, h, w), with its mask (b, h w)."""
        shapes = self._shapes(features)
        masks = for_each(self._positions("mask", mask, features, shapes), features)
        return list(zip(self._maps(features, shapes), masks, strict=True))

    def _maps(self, features: tuple[Tensor, ...], shapes: list[tuple[int, ...]]) -> list[Tensor]:
        """Return the features as maps (b, c, h, w)."""
        return [self._map(f, shapes[0][1:]) for f in features]

    def _shapes(self, features: tuple[Tensor, ...]) -> list[tuple[int, ...]]:
        """Check the features, and return the shapes (b, *positions) they came in."""
        if len(features) != len(self._inputs):
            raise CovpoolError(f"{self._name()} takes {len(self._inputs)} feature tensor(s); got {len(features)}")
        return [self._positions_shape(f, c) for f, c in zip(features, self._inputs, strict=True)]

    def _finished(self, z: Tensor) -> Tensor:
        """Normalize and project the pooled vectors in float32."""
        normalize = self._modules["normalize"]
        if self.project is None and isinstance(normalize, nn.Sequential) and not normalize._modules:
            return z  # calling modules that do nothing takes longer than average pooling
        with outside_autocast(z):
            z = self.normalize(z)
            return z if self.project is None else self.project(z.unsqueeze(-1)).squeeze(-1)

    def _positions(
        self, name: str, value: Tensor | None, features: tuple[Tensor, ...], shapes: list[tuple[int, ...]]
    ) -> Positions:
        """Return a mask or weights as (b, n); one for each feature tensor if they keep their own grids."""
        if value is None:
            return None
        flat = flatten_positions(name, value, shapes[0])
        if not self.own_positions:
            return flat
        return tuple(
            resize_positions(flat, shapes[0][1:], shape[1:], tokens=self._is_tokens(f))
            for f, shape in zip(features, shapes, strict=True)
        )

    def _map(self, feature: Tensor, grid: tuple[int, ...]) -> Tensor:
        """Return a feature tensor as a map (b, c, h, w), at the positions of `grid` or its own."""
        tokens = self._is_tokens(feature)
        if not self._is_channels_first(feature):
            feature = feature.movedim(-1, 1)
        if not self.own_positions:
            feature = resize_map(feature, grid, tokens=tokens)
        if feature.ndim == 3:
            feature = feature.unsqueeze(-1)
        elif feature.ndim == 5:
            feature = feature.flatten(2, 3)
        return feature

    def _is_tokens(self, feature: Tensor) -> bool:
        return feature.ndim == 3 and not self._is_channels_first(feature)

    def _is_channels_first(self, feature: Tensor) -> bool:
        return self.layout == "channels_first" or (self.layout == "auto" and feature.ndim > 3)

    def _positions_shape(self, feature: Tensor, channels: int) -> tuple[int, ...]:
        """Check the shape of a feature tensor and return (b, *positions)."""
        check_floating("features", feature)
        shape, channels_first = tuple(feature.shape), self._is_channels_first(feature)
        allowed = (3,) if self.layout == "tokens" else (3, 4, 5)
        if len(shape) not in allowed or shape[1 if channels_first else -1] != channels:
            raise CovpoolError(f"{self._name()} expects {self._expected(channels)}; got {shape}")
        if shape[0] and 0 in shape:
            raise CovpoolError(f"{self._name()} needs at least one position; got {shape}")
        return (shape[0], *shape[2:]) if channels_first else shape[:-1]

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


def _rows(x: Tensor, *, mask: Tensor | None, weights: None) -> Tensor:  # (b, n, c) -> (m, c)
    return x.flatten(0, 1) if mask is None else x[mask]


def _make_projection(pooled: int, project_to: int | None, groups: int) -> nn.Module | None:
    """Make the grouped linear map after pooling, as a 1x1 convolution of the vector."""
    if project_to is None:
        if groups != 1:
            raise CovpoolError(f"`groups` = {groups} needs `project_to`, the length of the output of the grouped map")
        return None
    if pooled % groups or project_to % groups:
        raise CovpoolError(
            f"`groups` = {groups} must divide the pooled length {pooled} and `project_to` = {project_to}"
        )
    return nn.Conv1d(pooled, project_to, 1, groups=groups)
