"""Batch norms that compute the activation behind them too, for training and inference on a GPU."""

from collections import Counter
from itertools import pairwise
from typing import Any, cast

from torch import Tensor, nn

from covpool.ops import Activation, batch_norm

ACTIVATIONS: dict[type, Activation] = {nn.Identity: "none", nn.ReLU: "relu", nn.ReLU6: "relu6", nn.SiLU: "silu"}
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class FusedBatchNorm(nn.BatchNorm2d):
    """A batch norm and the activation behind it. It has the parameters and the state of a batch norm.

    Attributes:
        activation: Name of the activation, "none" if the norm has none.
    """

    activation: Activation = "none"

    def forward(self, x: Tensor) -> Tensor:
        """The activated norm of a map (b, c, h, w)."""
        self._check_input_dim(x)
        assert self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None
        assert self.momentum is not None
        return batch_norm(
            x,
            self.weight,
            self.bias,
            (self.running_mean, self.running_var, self.num_batches_tracked),
            training=self.training,
            momentum=self.momentum,
            eps=self.eps,
            activation=self.activation,
        )


def fuse_norms(network: nn.Module) -> None:
    """Let every batch norm of a network compute the activation behind it.

    The activation is the one that follows it in its `nn.Sequential`, or that of timm's `BatchNormAct2d`. Modules keep
    their names, parameters and state, and the activation becomes an identity. Modules with hooks and norms that stand
    in several places stay as they are. A module that uses a part of its own Sequential (`body[:2]`) between a norm and
    its activation is not supported.

    Args:
        network: The network, changed in place. Nothing changes if its norms are fused already.

    >>> network = nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8), nn.ReLU())
    >>> fuse_norms(network)
    >>> [type(module).__name__ for module in network], network[1].activation
    (['Conv2d', 'FusedBatchNorm', 'Identity'], 'relu')
    """
    places = Counter(id(module) for _, module in network.named_modules(remove_duplicate=False))
    for parent in list(network.modules()):
        is_sequence = isinstance(parent, nn.Sequential) and type(parent).forward is nn.Sequential.forward
        for (_, norm), (name, following) in pairwise([*parent._modules.items(), ("", nn.Identity())]):
            if not isinstance(norm, nn.BatchNorm2d) or not _is_usual(norm) or places[id(norm)] > 1:
                continue
            if type(norm) is nn.BatchNorm2d:
                activation = _name(following) if is_sequence else None
                _fuse(norm, activation or "none")
                if activation and name:
                    setattr(parent, name, nn.Identity())
            elif _is_timms(norm) and type(norm.drop) is nn.Identity and (activation := _name(norm.act)):
                _fuse(norm, activation)
                norm.act = nn.Identity()


def _fuse(norm: nn.BatchNorm2d, activation: Activation) -> None:
    norm.__class__ = FusedBatchNorm
    cast(FusedBatchNorm, norm).activation = activation


def _name(activation: object) -> Activation | None:
    """The name of an activation that can be fused; None for other modules."""
    if type(activation) not in ACTIVATIONS or _has_hooks(activation):
        return None
    return ACTIVATIONS[type(activation)]


def _is_usual(norm: nn.BatchNorm2d) -> bool:
    """Whether a norm has parameters, running statistics that every batch changes by the same share, and no hooks."""
    return norm.affine and norm.track_running_stats and norm.momentum is not None and not _has_hooks(norm)


def _is_timms(norm: nn.BatchNorm2d) -> bool:
    return type(norm).__name__ == "BatchNormAct2d" and type(norm).__module__.startswith("timm.")


def _has_hooks(module: Any) -> bool:
    return any(getattr(module, name) for name in HOOKS)
