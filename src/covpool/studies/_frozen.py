"""A pool and a convex classifier on the kept features of a frozen backbone: nothing is left to chance.

The reduction starts from the principal axes of all training descriptors, pools with words or bases start from
descriptors, and the classifier is logistic regression, fitted to convergence with a cross-validated penalty.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from covpool.engine.classifiers import CrossValidated, fit_cross_validated
from covpool.pools import Pool
from covpool.studies._feature_maps import Maps

AT_ONCE = 64  # images that are pooled at once
DESCRIPTORS = 50_000  # that pools with words or bases start from


@dataclass(frozen=True, eq=False)
class FrozenFit:
    """What came of fitting one pool.

    Attributes:
        pool: started from the training features.
        chosen: the classifier, its penalty, and the cross-validated accuracy.
        seconds: time of pooling and of fitting.
    """

    pool: Pool
    chosen: CrossValidated
    seconds: dict[str, float]

    def scores(self, maps: Maps) -> Tensor:  # (n, classes)
        """Score images by their features."""
        return self.chosen.classifier.scores(pooled_vectors(self.pool, maps)[: len(maps)])

    def classifier(self) -> nn.Linear:
        """The classifier as a layer that follows the pool."""
        found = self.chosen.classifier
        layer = nn.Linear(found.weights.shape[1], found.weights.shape[0])
        layer.load_state_dict({"weight": found.weights, "bias": found.bias})
        return layer


def fit_frozen(pool: Pool, train: Maps, classes: int, *, class_weights: Tensor | None = None) -> FrozenFit:
    """Start a pool from training features and fit a classifier to its vectors.

    Args:
        pool: A new pool for these features; changed in place.
        train: Features of the training images, with or without those of their flips.
        classes: Number of classes.
        class_weights: A weight per class.
    """
    begin = time.perf_counter()
    pool.to(train.targets.device).eval()
    start_from_data(pool, train)
    vectors = pooled_vectors(pool, train)
    middle = time.perf_counter()
    copies = len(vectors) // len(train)
    chosen = fit_cross_validated(vectors, train.targets, classes=classes, copies=copies, class_weights=class_weights)
    return FrozenFit(pool, chosen, {"pooling": middle - begin, "fitting": time.perf_counter() - middle})


def start_from_data(pool: Pool, maps: Maps, *, seed: int = 0) -> None:
    """Start the reduction of a pool, and its words or bases, as far as it has them."""
    if pool.has_reduction:
        pool.init_reduction(_Batches(maps))
    start = getattr(pool, "init_from", None)
    if start is not None:
        start(_sample_descriptors(pool, maps, seed))


@torch.no_grad()
def pooled_vectors(pool: Pool, maps: Maps) -> Tensor:  # (rows of maps.features, d)
    """Pool all features; a pool that gives scores gives its representation."""
    pool.eval()
    method = pool if pool.output == "features" else cast(Callable[[Tensor], Tensor], pool.representation)
    vectors: Tensor | None = None
    done = 0
    for features in _Batches(maps):
        pooled = method(features).float()
        if vectors is None:  # one block of memory: the vectors are the largest thing there is
            vectors = pooled.new_empty(len(maps.features), pooled.shape[1])
        vectors[done : done + len(pooled)] = pooled
        done += len(pooled)
    assert vectors is not None
    return vectors


class _Batches:
    """The features of all images, some at a time, in float32 on the device of the pool; can be read several times."""

    def __init__(self, maps: Maps) -> None:
        self._maps = maps

    def __iter__(self) -> Iterator[Tensor]:
        for features in self._maps.features.split(AT_ONCE):
            yield features.to(self._maps.targets.device, non_blocking=True).float()


@torch.no_grad()
def _sample_descriptors(pool: Pool, maps: Maps, seed: int) -> Tensor:  # (at most DESCRIPTORS, c)
    """Descriptors after the reduction, the same number from every image."""
    generator = torch.Generator().manual_seed(seed)
    each = max(1, DESCRIPTORS // len(maps.features))
    found = []
    for features in _Batches(maps):
        rows = pool.descriptors(features).unflatten(0, (len(features), -1))  # (b, n, c)
        chosen = torch.randperm(rows.shape[1], generator=generator)[:each]
        found.append(rows[:, chosen.to(rows.device)].flatten(0, 1))
    every = torch.cat(found)
    return every[torch.randperm(len(every), generator=generator)[:DESCRIPTORS].to(every.device)]
