"""A pool and a convex classifier on the stored features of a frozen backbone.

The reduction starts from the principal axes of all training descriptors. Pools with words or bases start from
descriptors. The classifier is logistic regression, fitted to convergence with a cross-validated penalty.
"""

import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from covpool.engine.classifiers import CrossValidated, fit_cross_validated
from covpool.pools import Pool
from covpool.studies._feature_maps import Maps

AT_ONCE = 64  # images that are pooled at once
CPU_AT_ONCE = 16  # the same on a CPU, where larger intermediate results are allocated anew for every batch
DESCRIPTORS = 50_000  # number of descriptors that pools with words or bases start from

# Principal axes, by what they depend on: pools that share the feature maps also share them.
_REDUCTIONS: WeakKeyDictionary[Maps, dict[str, dict[str, Any]]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class FrozenFit:
    """The result of fitting one pool.

    Attributes:
        pool: The pool, started from the training features.
        chosen: The classifier, its penalty, and the cross-validated accuracy.
        seconds: Time of pooling and of fitting.
    """

    pool: Pool
    chosen: CrossValidated
    seconds: dict[str, float]

    def scores(self, maps: Maps) -> Tensor:  # (n, classes)
        """Score images by their features."""
        return self.chosen.classifier.scores(pooled_vectors(self.pool, maps)[: len(maps)])

    def classifier(self) -> nn.Linear:
        """Return the classifier as a layer that follows the pool, with calibrated probabilities."""
        found = self.chosen.calibrated
        layer = nn.Linear(found.weights.shape[1], found.weights.shape[0])
        layer.load_state_dict({"weight": found.weights, "bias": found.bias})
        return layer


def fit_frozen(
    pool: Pool,
    train: Maps,
    classes: int,
    *,
    class_weights: Tensor | None = None,
    folds: int = 3,
    descriptors: int = DESCRIPTORS,
    seed: int = 0,
) -> FrozenFit:
    """Start a pool from training features and fit a classifier to its vectors.

    Args:
        pool: A new pool for these features; changed in place.
        train: Features of the training images, with or without those of the flipped images.
        classes: Number of classes.
        class_weights: A weight per class.
        folds: Number of folds of the cross-validation.
        descriptors: Number of descriptors that pools with words or bases start from.
        seed: Seed of the draw of these descriptors.
    """
    begin = time.perf_counter()
    pool.to(train.targets.device).eval()
    start_from_data(pool, train, seed=seed, count=descriptors)
    vectors = pooled_vectors(pool, train)
    middle = time.perf_counter()
    chosen = fit_cross_validated(
        vectors,
        train.targets,
        classes=classes,
        copies=len(vectors) // len(train),
        folds=folds,
        class_weights=class_weights,
    )
    return FrozenFit(pool, chosen, {"pooling": middle - begin, "fitting": time.perf_counter() - middle})


def start_from_data(pool: Pool, maps: Maps, *, seed: int = 0, count: int = DESCRIPTORS) -> None:
    """Start the reduction of a pool, and its words or bases, if it has them."""
    if pool.has_reduction:
        known = _REDUCTIONS.setdefault(maps, {})
        key = f"{pool.layout} {pool.reduce} {[(part.kind, part.activation) for part in pool.reduce]}"
        if key not in known:
            pool.init_reduction(_FeatureBatches(maps))
            known[key] = deepcopy(pool.reduce.state_dict())
        pool.reduce.load_state_dict(known[key])
    if pool.init_from is not None:
        pool.init_from(_sample_descriptors(pool, maps, seed, count))


@torch.no_grad()
def pooled_vectors(pool: Pool, maps: Maps) -> Tensor:  # (rows of maps.features, d)
    """Pool all features."""
    pool.eval()
    vectors: Tensor | None = None
    done = 0
    for features in _FeatureBatches(maps, CPU_AT_ONCE if maps.targets.device.type == "cpu" else AT_ONCE):
        pooled = pool.representation(features).float()
        if vectors is None:  # one block of memory, because the vectors need most of it
            vectors = pooled.new_empty(len(maps.features), pooled.shape[1])
        vectors[done : done + len(pooled)] = pooled
        done += len(pooled)
    assert vectors is not None
    return vectors


def vector_length(pool: Pool, maps: Maps) -> int:
    """Return the length of the vectors of a pool, by pooling the features of one image."""
    return pooled_vectors(pool, Maps(maps.features[:1], maps.targets[:1])).shape[1]


class _FeatureBatches:
    """The features of all images in batches, in float32 on the device of the pool; can be read several times."""

    def __init__(self, maps: Maps, at_once: int = AT_ONCE) -> None:
        self._maps, self._at_once = maps, at_once

    def __iter__(self) -> Iterator[Tensor]:
        for features in self._maps.features.split(self._at_once):
            yield features.to(self._maps.targets.device, non_blocking=True).float()


@torch.no_grad()
def _sample_descriptors(pool: Pool, maps: Maps, seed: int, count: int) -> Tensor:  # (at most `count`, c)
    """Draw descriptors after the reduction, the same number from every image."""
    generator = torch.Generator().manual_seed(seed)
    each = max(1, count // len(maps.features))
    found = []
    for features in _FeatureBatches(maps):
        rows = pool.descriptors(features).unflatten(0, (len(features), -1))  # (b, n, c)
        chosen = torch.randperm(rows.shape[1], generator=generator)[:each]
        found.append(rows[:, chosen.to(rows.device)].flatten(0, 1))
    every = torch.cat(found)
    return every[torch.randperm(len(every), generator=generator)[:count].to(every.device)]
