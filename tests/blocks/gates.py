"""What the tests of SE and CBAM share: maps, gates at no special value, and the formulas written out."""

import torch
from torch import Tensor, nn

from cases import features


def maps(c: int = 8) -> Tensor:
    return features(2, 30, c).mT.reshape(2, c, 5, 6)


def shaken(gate: nn.Module) -> nn.Module:
    """In float64, with no parameter or statistic at a special value."""
    torch.manual_seed(0)
    for tensor in gate.double().state_dict().values():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand_like(tensor) + 0.1)
    return gate.eval()


def perceptron(z: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    return (z @ w1.T + b1).clamp(min=0) @ w2.T + b2


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + (-x).exp())


def matrices(gate: nn.Module) -> tuple[Tensor, ...]:
    """w1, b1, w2, b2 of a gate's two 1x1 convolutions."""
    layers = [m for m in gate.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (1, 1)]
    return tuple(t.squeeze() for layer in layers for t in (layer.weight.flatten(1), layer.bias))
