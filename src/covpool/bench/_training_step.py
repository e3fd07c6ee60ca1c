"""The training step of the benchmarks: channels_last and SGD, on a GPU with bf16 autocast and a fused optimizer."""

from typing import Any

import torch
from torch import Tensor, nn

import covpool


class TrainingStep:
    """A network with its optimizer. A call is one step on a batch; it does not wait for the device.

    Args:
        backbone: Name of a backbone for `covpool.attach`.
        pool: Name of a pool.
        classes: Number of classes.
        device: Device to train on.
        compiled: Compile the network.
    """

    def __init__(self, backbone: str, pool: str, classes: int, device: torch.device, *, compiled: bool = False) -> None:
        torch.manual_seed(0)
        model = covpool.attach(backbone, pool, classes).train().to(device).to(memory_format=torch.channels_last)
        self.network: Any = torch.compile(model) if compiled else model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=device.type == "cuda")

    def __call__(self, x: Tensor, y: Tensor) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=x.is_cuda):
            loss = nn.functional.cross_entropy(self.network(x.contiguous(memory_format=torch.channels_last)), y)
        loss.backward()
        self.optimizer.step()
