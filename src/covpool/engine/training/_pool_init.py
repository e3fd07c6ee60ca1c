"""Pools initialized from data: descriptors of training images, collected before the first step."""

import torch
from torch import Tensor

from covpool._errors import CovpoolError
from covpool.data.pipeline import TrainBatches
from covpool.engine.training._session import Session
from covpool.models import Network

BATCH_SIZE = 16


def init_pool_from_data(session: Session) -> None:
    """Initialize the pool from descriptors if the recipe sets `init.pool_from_data`."""
    settings, pool = session.recipe.init, session.network.pool
    if not settings.pool_from_data:
        return
    start = getattr(pool, "init_from", None)
    if start is None:
        raise CovpoolError(f"`init.pool_from_data`: {type(pool).__name__} is not initialized from data: leave it out")
    start(collect_descriptors(session, settings.descriptors))


@torch.no_grad()
def collect_descriptors(session: Session, count: int) -> Tensor:  # -> (at most count, c)
    """Collect descriptors after the pool's reduction, at random positions of random training images.

    Every process takes the same images, so that all have the same pool.
    """
    network = session.network.to(session.fabric.device).eval()
    network.pool.train()  # the batch norm of a new reduction has no statistics for evaluation mode yet
    images = session.splits.train
    batches = TrainBatches(
        images,
        session.recipe.augment,
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
    if isinstance(features, tuple):
        raise CovpoolError("`init.pool_from_data` needs a pool with one feature map: leave it out")
    return network.pool.descriptors(features)
