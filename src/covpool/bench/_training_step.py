"""One training step as the benchmarks take it: bf16 autocast on a GPU, channels_last, SGD, fused where it can be."""

from typing import Any

import torch
from torch import Tensor, nn

import covpool


class TrainingStep:
    """A network with its optimizer; a call is one step on a batch, without waiting for the device.

    Args:
        backbone, pool: what `covpool.attach` takes.
        classes: outputs of the network.
        device: where.
        compiled: compile the network.
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
