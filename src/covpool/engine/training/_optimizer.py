"""The optimizer of a training, on the parameters of the network that learn."""

import torch
from torch import Tensor

from covpool._errors import CovpoolError
from covpool.models import Network
from covpool.recipe import Optimizer, build_optimizer

BASE_LR = "initial_lr"  # of a group: the learning rate that the schedule multiplies, named as in torch's schedulers


def make_optimizer(network: Network, settings: Optimizer) -> torch.optim.Optimizer:
    """Build the optimizer of a network.

    Args:
        network: Network to train. Only its parameters with requires_grad are used.
        settings: Settings of the optimizer. The classifier has its own learning rate and weight decay.

    >>> import covpool
    >>> network = covpool.attach("torchvision/resnet18", "isqrt", num_classes=3, reduce_to=16)
    >>> optimizer = make_optimizer(network, Optimizer(lr=0.1, head_factor=5))
    >>> [(group["name"], group["lr"]) for group in optimizer.param_groups]
    [('features', 0.1), ('pool', 0.1), ('classifier', 0.5)]
    """
    groups = network.parameter_groups(
        settings.lr,
        head_factor=settings.head_factor,
        weight_decay=settings.weight_decay,
        decay_norms=settings.decay_norms,
    )
    if not groups:
        raise CovpoolError("nothing is left to learn: `train.freeze` names every part of the network")
    head = "pool" if network.pool.output == "scores" else "classifier"
    for group in groups:
        group[BASE_LR] = group["lr"]
        if group["name"] == head and settings.head_weight_decay is not None:
            group["weight_decay"] = settings.head_weight_decay
    return build_optimizer(groups, settings)


def set_lr(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set the learning rate of every group to its initial one times `factor`."""
    for group in optimizer.param_groups:
        lr = group[BASE_LR] * factor
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(lr)
        else:
            group["lr"] = lr


def can_be_captured(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a CUDA graph can hold the step: torch's SGD in its fused form, and torch's optimizers with `capturable`.

    >>> from torch import nn
    >>> can_be_captured(torch.optim.AdamW(nn.Linear(2, 2).parameters()))
    True
    """
    groups = optimizer.param_groups
    if type(optimizer) is torch.optim.SGD:
        return not any(group["foreach"] or group["differentiable"] for group in groups)
    is_torchs = type(optimizer).__module__.startswith("torch.optim.")
    return is_torchs and all("capturable" in group for group in groups)


def prepare_capture(optimizer: torch.optim.Optimizer) -> None:
    """Let a CUDA graph hold the step of an optimizer. Its learning rates become tensors on the device.

    Args:
        optimizer: An optimizer that `can_be_captured`, with its parameters on the device.
    """
    for group in optimizer.param_groups:
        group["fused" if "capturable" not in group else "capturable"] = True
        group["lr"] = torch.tensor(float(group["lr"]), device=group["params"][0].device)
    for parameter, state in optimizer.state.items():
        if isinstance(state.get("step"), Tensor):
            state["step"] = state["step"].to(parameter.device, torch.float32)
    # The steps before the capture are no mistake.
    optimizer._warned_capturable_if_run_uncaptured = True
