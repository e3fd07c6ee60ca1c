"""The second half of a network: a pool, and a classifier of one linear layer, alone or after hidden layers."""

from collections.abc import Sequence
from typing import Any, Literal

from torch import nn

from covpool._errors import CovpoolError, WrongTypeError, check_positive_int
from covpool.pools import Pool, create_pool, pool_info

AUTO_WIDTH = 256  # channels after the reduction in most of the paper's networks

ReduceTo = int | Sequence[int] | Literal["auto"] | None


def make_head(
    pool: str | Pool,
    channels: Sequence[int],
    num_classes: int,
    *,
    reduce_to: ReduceTo = "auto",
    layers: Sequence[int] = (),
    norm: bool = True,
    **pool_options: Any,
) -> tuple[Pool, nn.Module]:
    """Build a pool for features of a given width, and a classifier for what it gives.

    A pool that gives scores is its own classifier; the second module is then nn.Identity().

    Args:
        pool: Name of the pool, or a pool, to which `reduce_to` and options do not apply.
        channels: Channels of each feature tensor, such as `make_features(...).channels`.
        num_classes: Length of the logits.
        reduce_to: Channels after 1x1 convolutions before pooling, None for no reduction. "auto" is 256 where there are
            more channels, and no reduction for pools of first order.
        layers: Widths of hidden layers in the classifier.
        norm: Whether these are FC-BN-ReLU; otherwise they are FC-ReLU-Dropout.
        pool_options: Options of the pool, such as layout="tokens" or iterations=3.

    >>> pool, classifier = make_head("isqrt", (512,), 10, reduce_to=64)
    >>> pool.out_features, classifier
    (2080, Linear(in_features=2080, out_features=10, bias=True))
    """
    check_positive_int("num_classes", num_classes)
    if isinstance(pool, Pool):
        made = _check_pool(pool, channels, [*pool_options, *([] if reduce_to == "auto" else ["reduce_to"])])
    else:
        if "num_classes" in pool_info(pool).options:
            pool_options["num_classes"] = num_classes
        if reduce_to == "auto":
            reduce_to = AUTO_WIDTH if pool_info(pool).order != "1" and max(channels) > AUTO_WIDTH else None
        inputs = tuple(channels) if len(channels) > 1 else channels[0]
        made = create_pool(pool, inputs, reduce_to=reduce_to, **pool_options)
    if made.output == "features":
        return made, make_classifier(made.out_features, num_classes, layers=layers, norm=norm)
    if made.out_features != num_classes:
        name = repr(pool) if isinstance(pool, str) else type(pool).__name__
        raise CovpoolError(f"{name} gives {made.out_features} scores for {num_classes} classes: leave `project_to` out")
    return made, nn.Identity()


def make_classifier(in_features: int, num_classes: int, *, layers: Sequence[int] = (), norm: bool = True) -> nn.Module:
    """Linear(num_classes), after hidden layers where `layers` gives their widths.

    A hidden layer is FC-BN-ReLU, as in the paper's AlexNet and VGG-M (the FC has no bias: BN has one). With norm=False
    it is FC-ReLU-Dropout, as in the original VGG networks and the authors' VGG16-BN.

    Args:
        in_features: Length of the vectors that come in.
        num_classes: Length of the logits.
        layers: Widths of the hidden layers.
        norm: Batch norm in the hidden layers; otherwise dropout after them.

    >>> [type(m).__name__ for m in make_classifier(36, 10, layers=(64,))]
    ['Linear', 'BatchNorm1d', 'ReLU', 'Linear']
    """
    check_positive_int("num_classes", num_classes)
    modules: list[nn.Module] = []
    for width in layers:
        check_positive_int("head_layers", width)
        modules.append(nn.Linear(in_features, width, bias=not norm))
        modules += [nn.BatchNorm1d(width), nn.ReLU()] if norm else [nn.ReLU(), nn.Dropout()]
        in_features = width
    last = nn.Linear(in_features, num_classes)
    return nn.Sequential(*modules, last) if modules else last


def last_linear(classifier: nn.Module) -> nn.Linear:
    """The layer that gives the logits."""
    last = classifier[-1] if isinstance(classifier, nn.Sequential) and len(classifier) else classifier
    if not isinstance(last, nn.Linear):
        raise WrongTypeError(f"the classifier must end in nn.Linear; got {type(last).__name__}: replace it yourself")
    return last


def _check_pool(pool: Pool, channels: Sequence[int], options: list[str]) -> Pool:
    """Refuse a pool object built for other features, and options that belong to a pool built by name."""
    if options:
        raise WrongTypeError(
            f"`pool` is a {type(pool).__name__} already, which has its options: leave {', '.join(options)} out, or "
            "name the pool"
        )
    expected = pool.in_features if isinstance(pool.in_features, tuple) else (pool.in_features,)
    if tuple(channels) != expected:
        raise CovpoolError(
            f"`pool` must take the {', '.join(map(str, channels))} channels of the backbone; got a "
            f"{type(pool).__name__} for {', '.join(map(str, expected))}"
        )
    return pool
