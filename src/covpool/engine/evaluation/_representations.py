"""Representations of images and of their flips: the vectors that an SVM is trained on."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from covpool.data.pipeline import Batch
from covpool.engine._infer import infer
from covpool.models import Network


@dataclass(frozen=True)
class Representations:
    """Representations of unit length."""

    z: Tensor  # (n, d), of the images
    flipped: Tensor  # (n, d), of the flipped images
    targets: Tensor  # (n,)


def compute_representations(network: Network, batches: Iterable[Batch]) -> Representations:
    """Compute the unit-length representations of all images and of their flips.

    The representation is the output of the pool, or `representation` of a pool that outputs scores.
    """

    def forward(x: Tensor) -> Tensor:
        return normalize(represent(network, x).float()).cpu()

    found = [(*one.outputs, one.batch.y.cpu()) for one in infer(network, batches, forward, flip=True)]
    return Representations(*(torch.cat(tensors) for tensors in zip(*found, strict=True)))


def represent(network: Network, x: Tensor) -> Tensor:  # (b, 3, h, w) -> (b, d)
    """Compute the representations of a batch of images: what a linear classifier gets."""
    features = network.forward_features(x)
    return network.pool.representation(*(features if isinstance(features, tuple) else (features,)))
