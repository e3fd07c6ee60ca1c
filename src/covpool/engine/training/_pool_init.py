"""Pools initialized from data: features of training images, computed before the first step."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from covpool._errors import CovpoolError
from covpool._progress import OnProgress
from covpool.data.pipeline import EvalBatches, Share, TrainBatches
from covpool.engine._devices import summed
from covpool.engine._infer import infer, select_rows, with_progress
from covpool.engine.training._interrupt import StopRequests
from covpool.engine.training._session import Session
from covpool.models import Network

BATCH_SIZE = 16


def init_pool_from_data(session: Session, requests: StopRequests) -> None:
    """Initialize the pool as the recipe says: its reduction (`init.reduction`), then itself (`init.pool_from_data`)."""
    settings, pool = session.recipe.init, session.network.pool
    if settings.reduction == "pca" and pool.has_reduction and not session.has_own_pool:
        session.network.to(session.fabric.device)
        features = _TrainFeatures(session, partial(session.report_preparing, requests))
        pool.init_reduction(features, summed=partial(summed, session.fabric))
    if not settings.pool_from_data:
        return
    if pool.init_from is None:
        raise CovpoolError(f"`init.pool_from_data`: {type(pool).__name__} is not initialized from data: leave it out")
    pool.init_from(collect_descriptors(session, settings.descriptors))


class _TrainFeatures:
    """The features of this process's share of the training images, without augmentation; can be read several times."""

    def __init__(self, session: Session, on_progress: OnProgress) -> None:
        self._session, self._on_progress, fabric = session, on_progress, session.fabric
        train = session.recipe.train
        parts = train.accumulate * fabric.world_size
        self._batches = EvalBatches(
            session.splits.train,
            session.augment,
            session.recipe.data,
            batch_size=session.recipe.evaluate.batch_size or max(1, train.batch_size // parts),
            share=Share(fabric.world_size, fabric.global_rank),
            device=fabric.device,
            on_progress=on_progress,
        )

    def __iter__(self) -> Iterator[Any]:
        network = self._session.network
        batches = with_progress(self._batches, "principal axes", self._on_progress)
        readable = select_rows(batches, lambda batch: (batch.index >= 0) & ~batch.broken)
        precision = self._session.recipe.train.precision  # with that of the training, cuDNN prepares its work once
        for found in infer(network, readable, network.forward_features, precision=precision):
            yield found.outputs[0]


@torch.no_grad()
def collect_descriptors(session: Session, count: int) -> Tensor:  # -> (at most count, c)
    """Collect descriptors after the pool's reduction, at random positions of random training images.

    Every process takes the same images, so that all have the same pool.
    """
    network = session.network.to(session.fabric.device).eval()
    # The batch norm of a new reduction has no statistics for evaluation mode yet, unless they come from data.
    network.pool.train(session.recipe.init.reduction == "random")
    images = session.splits.train
    batches = TrainBatches(
        images,
        session.augment,
        session.recipe.data.changed(cache="none"),  # a cache would decode all images
        batch_size=min(BATCH_SIZE, len(images)),
        seed=session.recipe.seed,
        device=session.fabric.device,
    )
    found: list[Tensor] = []
    have = 0
    for batch in batches.epoch(0):
        found.append(_descriptors(network, batch.x).cpu())
        have += len(found[-1])
        if have >= 4 * count:  # more than needed, so that they come from many images
            break
    every = torch.cat(found)
    chosen = torch.randperm(len(every), generator=torch.Generator().manual_seed(session.recipe.seed))[:count]
    return every[chosen].to(session.fabric.device)


def _descriptors(network: Network, x: Tensor) -> Tensor:
    features = network.forward_features(x)
    maps = features if isinstance(features, tuple) else (features,)
    if len(maps) > 1:
        raise CovpoolError("`init.pool_from_data` needs a pool with one feature map: leave it out")
    return network.pool.descriptors(maps[0])
