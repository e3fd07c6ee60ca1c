"""The moving average of the weights."""

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel


@torch.no_grad()
def update_average(average: AveragedModel, network: nn.Module) -> None:
    """Update averaged weights, and copy the buffers, in few operations; the caller counts `average.n_averaged`.

    `AveragedModel.update_parameters` computes the same, but sends its counter to the device, which a CUDA graph cannot
    hold.

    Args:
        average: The copy with averaged weights.
        network: The network that is trained.
    """
    means: list[Tensor] = list(average.module.parameters())
    weights: list[Tensor] = list(network.parameters())
    if average.n_averaged == 0:
        torch._foreach_copy_(means, weights)
    else:
        assert average.multi_avg_fn is not None
        average.multi_avg_fn(means, weights, average.n_averaged)
    buffers = list(average.module.buffers())
    if buffers:
        torch._foreach_copy_(buffers, list(network.buffers()))
