"""What a training changes in its network: the memory format, shared norms, and modules that have kernels."""

import torch
from lightning_fabric import Fabric

from covpool.models import Network, fuse_norms, replace_depthwise, sync_norms
from covpool.recipe import Train


def adapt(network: Network, train: Train, fabric: Fabric) -> None:
    """Prepare a network for a training. Modules keep their names, parameters and state.

    Args:
        network: The network, changed in place.
        train: Settings of the training loop.
        fabric: Devices and number of processes.
    """
    if train.channels_last:
        network.to(memory_format=torch.channels_last)
    if train.sync_norms and fabric.world_size > 1:
        sync_norms(network)
    if train.kernels and train.channels_last and fabric.device.type == "cuda":  # the kernels need this memory format
        fuse_norms(network)
        replace_depthwise(network)
