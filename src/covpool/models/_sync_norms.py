"""Batch norms that compute their statistics over all processes of a training."""

from torch import nn

from covpool._errors import require


def sync_norms(network: nn.Module) -> None:
    """Let every batch norm of a network share its statistics between processes.

    Torch's conversion alone would lose the activations of timm's `BatchNormAct2d`; these are kept. Modules keep their
    names, parameters and state.

    Args:
        network: The network, changed in place. It is not a norm itself.

    >>> network = nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8), nn.ReLU())
    >>> sync_norms(network)
    >>> [type(module).__name__ for module in network]
    ['Conv2d', 'SyncBatchNorm', 'ReLU']
    """
    require("timm.layers", "models").convert_sync_batchnorm(network)
