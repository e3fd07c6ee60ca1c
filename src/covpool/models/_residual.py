"""Residual blocks of torchvision's and timm's ResNets in a form whose parts can be changed."""

from collections.abc import Iterator

from torch import Tensor, nn

from covpool._errors import CovpoolError
from covpool.models._backbone import device_and_dtype

BASIC, BOTTLENECK = "BasicBlock", "Bottleneck"
# class -> the possible modules of its residual branch in order, and its last activation
KNOWN: dict[str, tuple[str, str]] = {
    f"torchvision.models.resnet.{BASIC}": ("conv1 bn1 relu conv2 bn2", "relu"),
    f"torchvision.models.resnet.{BOTTLENECK}": ("conv1 bn1 relu conv2 bn2 relu conv3 bn3", "relu"),
    f"timm.models.resnet.{BASIC}": ("conv1 bn1 drop_block act1 aa conv2 bn2 se drop_path", "act2"),
    f"timm.models.resnet.{BOTTLENECK}": ("conv1 bn1 act1 conv2 bn2 drop_block act2 aa conv3 bn3 se drop_path", "act3"),
}


class ResidualBlock(nn.Module):
    """A block of a ResNet with its own modules, parameters and names, and a forward of ours:

        y = activation(merge(shortcut, branch(x))).

    Without `merge` the two are added, and the output equals that of the original block, bit for bit.

    Args:
        block: A BasicBlock or Bottleneck of torchvision or timm, whose modules are shared.
    """

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        names, self.activation = KNOWN[_class(block)]
        self.downsample: nn.Module | None = None
        for name, child in block.named_children():
            setattr(self, name, child)
        self.branch = tuple(name for name in names.split() if isinstance(getattr(block, name, None), nn.Module))
        self.gates: tuple[str, ...] = ()
        self.merge: nn.Module | None = None
        self.training = block.training

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for name in self.branch:
            y = getattr(self, name)(y)
        shortcut = x if self.downsample is None else self.downsample(x)
        y = shortcut + y if self.merge is None else self.merge(shortcut, y)
        return getattr(self, self.activation)(y)

    @property
    def channels(self) -> int:
        """Channels of the output."""
        last = [child for name in self.branch if isinstance(child := getattr(self, name), nn.Conv2d)][-1]
        return last.out_channels

    def add_gate(self, name: str, gate: nn.Module) -> None:
        """Append a module to the residual branch, before drop path."""
        if name in self.branch:
            raise CovpoolError(f"this backbone has {name!r} in its blocks already: insert it only once")
        end = len(self.branch) - ("drop_path" in self.branch)
        self.branch = (*self.branch[:end], name, *self.branch[end:])
        self.gates = (*self.gates, name)
        setattr(self, name, gate.to(*device_and_dtype(self)).train(self.training))

    def set_merge(self, merge: nn.Module) -> None:
        """Replace the sum of shortcut and residual by a module of two inputs."""
        if self.merge is not None:
            raise CovpoolError(f"the sum in these blocks is already replaced by {self.merge}: replace it only once")
        self.merge = merge.train(self.training)

    def set_activation(self, activation: nn.Module) -> None:
        """Replace the last activation; those inside the branch stay."""
        self.activation = "last_activation"
        self.last_activation = activation.train(self.training)

    def extra_repr(self) -> str:
        return f"branch: {' '.join(self.branch)}; then {self.activation}"


def take_over(model: nn.Module) -> list[ResidualBlock]:
    """Replace every residual block in a network by a `ResidualBlock`, in place.

    Returns: All of them in order, including those that were `ResidualBlock`s before.
    """
    for name, block in list(model.named_modules()):
        if name and _class(block) in KNOWN:
            model.set_submodule(name, ResidualBlock(block))
    blocks = [module for module in model.modules() if isinstance(module, ResidualBlock)]
    if not blocks:
        raise CovpoolError(
            f"{type(model).__name__} has no residual block of a supported kind: {BASIC} or {BOTTLENECK} of "
            "torchvision's and timm's ResNets. For others, write the block yourself with the layers of covpool.blocks"
        )
    return blocks


def move_strides_first(model: nn.Module) -> None:
    """Move the stride of every bottleneck from its 3x3 convolution to the 1x1 before it, as in the first ResNets."""
    for block in model.modules():
        first, second = getattr(block, "conv1", None), getattr(block, "conv2", None)
        if isinstance(first, nn.Conv2d) and isinstance(second, nn.Conv2d) and first.kernel_size == (1, 1):
            first.stride, second.stride = second.stride, first.stride


def gate_tensors(model: nn.Module) -> Iterator[str]:
    """The names of the tensors of all inserted gates in a network."""
    for prefix, block in model.named_modules():
        if isinstance(block, ResidualBlock):
            for name in block.gates:
                path = f"{prefix}.{name}"
                yield from (f"{path}.{key}" for key in model.get_submodule(path).state_dict())


def _class(block: nn.Module) -> str:
    return f"{type(block).__module__}.{type(block).__qualname__}"
