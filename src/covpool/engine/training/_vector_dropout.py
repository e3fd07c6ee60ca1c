"""Dropout of the pooled vector, which keeps a long representation from over-fitting."""

from torch import Tensor, nn
from torch.nn.functional import dropout
from torch.utils.hooks import RemovableHandle

from covpool._errors import CovpoolError
from covpool.models import Network


def drop_vectors(network: Network, p: float) -> RemovableHandle:
    """Drop elements of the pooled vector in training, before the classifier. The network itself stays as it is.

    Args:
        network: The network.
        p: Probability that an element becomes zero; the others are divided by 1 - p.

    Returns:
        What removes it: `handle.remove()`.

    >>> import torch, covpool
    >>> network = Network(nn.Identity(), covpool.create_pool("avg", 1000), nn.Identity())
    >>> handle = drop_vectors(network, 0.5)
    >>> images = torch.ones(1, 1000, 2, 2)
    >>> 400 < int((network.train()(images) == 0).sum()) < 600, int((network.eval()(images) == 0).sum())
    (True, 0)
    """
    if network.pool.output == "scores":
        raise CovpoolError(
            "`train.vector_dropout` requires a pool that is followed by a classifier; "
            f"{type(network.pool).__name__} is its own classifier: leave it out"
        )

    def drop(module: nn.Module, inputs: tuple[Tensor]) -> Tensor:
        return dropout(inputs[0], p, module.training)

    return network.classifier.register_forward_pre_hook(drop)
