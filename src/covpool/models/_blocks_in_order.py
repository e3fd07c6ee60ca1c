"""The blocks of a backbone in the order of their calls, to pool features before the last layer."""

from contextlib import ExitStack
from typing import Any

from torch import Tensor, nn

from covpool.models._backbone import Backbone
from covpool.models._dry_run import dry_run

CONTAINERS = (nn.Sequential, nn.ModuleList)  # exactly these types; subclasses are blocks


def previous_block(backbone: Backbone) -> str | None:
    """Find the block before the last features, by the name that `levels` of `attach` takes; None if there is none.

    A block is a child of the backbone, or of an nn.Sequential or nn.ModuleList inside it. For feature maps, the
    previous block is the last one whose output has another shape than the features: the layer before a final 1x1
    convolution, or the previous stage. For tokens, which keep their shape, it is the block before the last one.

    >>> from covpool.models import make_features
    >>> previous_block(make_features("torchvision/mobilenet_v2", keep_last_stride=True))
    'features.17'
    """
    shapes = dry_run(backbone, backbone.image, _shapes_of_blocks)
    last = shapes.pop("")
    if backbone.layout == "tokens":
        composite = [name for name in shapes if next(backbone.body.get_submodule(name).children(), None) is not None]
        named = [name for name in composite if shapes[name] == shapes[composite[-1]]]
        return named[-2] if len(named) > 1 else None
    others = [name for name, shape in shapes.items() if len(shape) == len(last) and shape != last]
    return others[-1] if others else None


def _shapes_of_blocks(backbone: Backbone, x: Tensor) -> dict[str, tuple[int, ...]]:
    """The shape of each block's output in the order of calls, and under "" the shape of the features."""
    found: dict[str, tuple[int, ...]] = {}

    def record(name: str, output: Any) -> None:
        if isinstance(output, Tensor) and output.ndim in (3, 4):
            found.pop(name, None)
            found[name] = tuple(output.shape)

    with ExitStack() as hooks:
        for name, module in _blocks(backbone.body):
            hook = module.register_forward_hook(lambda _, __, output, name=name: record(name, output))
            hooks.enter_context(hook)
        record("", backbone(x))
    return found


def _blocks(module: nn.Module, prefix: str = "") -> list[tuple[str, nn.Module]]:
    found: list[tuple[str, nn.Module]] = []
    for name, child in module.named_children():
        inside = type(child) in CONTAINERS
        found += _blocks(child, f"{prefix}{name}.") if inside else [(f"{prefix}{name}", child)]
    return found
