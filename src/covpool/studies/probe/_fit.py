"""Training one pool and a linear classifier on stored feature maps."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from covpool.engine.training import lr_factor, make_optimizer, set_lr
from covpool.models import Network
from covpool.recipe import Optimizer, Schedule
from covpool.studies._feature_maps import Maps
from covpool.studies._pool_spec import PoolSpec
from covpool.studies.probe._settings import Probe

ROWS = 256  # images per batch when scores are computed


@dataclass(frozen=True)
class FittedHead:
    """A trained head."""

    network: Network
    diverged_at: int | None  # first step whose loss is not finite
    seconds: float


def fit(head: PoolSpec, maps: Maps, chosen: Tensor, probe: Probe, *, lr: float, seed: int) -> FittedHead:
    """Train a new head on some images and their flipped copies.

    Args:
        head: Head to train.
        maps: Feature maps of the training images and of their flipped copies.
        chosen: Indices of the images to use, (m,).
        probe: Settings of the protocol.
        lr: Learning rate at the start.
        seed: Seed of the initial weights, the order of images and the flips.
    """
    device = maps.targets.device
    start = time.perf_counter()
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        network = Network(nn.Identity(), *head.make()).to(device)
        rows = _order(chosen, len(maps), probe, seed).to(device)
        _start_from_data(network, maps, rows, probe.descriptors)
        losses = _train(network, maps, rows, probe, lr)
    lost = (~losses.isfinite()).nonzero()
    return FittedHead(network, int(lost[0]) if len(lost) else None, time.perf_counter() - start)


@torch.no_grad()
def logits(network: Network, maps: Maps, chosen: Tensor) -> Tensor:  # -> (m, classes)
    """Return the scores of some images, not flipped."""
    network.eval()
    return torch.cat([network(maps.batch(rows)[0]) for rows in chosen.to(maps.targets.device).split(ROWS)])


def training_pass(network: Network, maps: Maps, batch_size: int) -> Callable[[], None]:
    """Return a function that runs forward and backward of pool and classifier on one batch, to measure its cost."""
    x, y = maps.batch(torch.arange(min(batch_size, len(maps)), device=maps.targets.device))
    network.train()

    def run() -> None:
        network.zero_grad(set_to_none=True)
        cross_entropy(network(x), y).backward()

    return run


def _order(chosen: Tensor, count: int, probe: Probe, seed: int) -> Tensor:  # -> (steps, batch)
    """Return the rows of `Maps.features` for every step. The incomplete last batch of an epoch is left out."""
    size = min(probe.batch_size, len(chosen))
    generator = torch.Generator().manual_seed(seed)
    epochs = []
    for _ in range(probe.epochs):
        order = chosen[torch.randperm(len(chosen), generator=generator)]
        flipped = torch.randint(2, order.shape, generator=generator)
        rows = order + count * flipped
        epochs.append(rows[: len(rows) // size * size].view(-1, size))
    return torch.cat(epochs)


def _train(network: Network, maps: Maps, rows: Tensor, probe: Probe, lr: float) -> Tensor:  # -> (steps,)
    """Run all steps without synchronizing with the device, and return their losses."""
    network.train()
    settings = Optimizer(lr=lr, momentum=probe.momentum, weight_decay=probe.weight_decay, head_factor=probe.head_factor)
    optimizer = make_optimizer(network, settings)
    schedule = Schedule(name="cosine", per_step=True, warmup_epochs=probe.warmup_epochs)
    losses = torch.zeros(len(rows), device=rows.device)
    for step, row in enumerate(rows):
        set_lr(optimizer, lr_factor(schedule, step, steps_per_epoch=len(rows) // probe.epochs, epochs=probe.epochs))
        x, y = maps.batch(row)
        loss = cross_entropy(network(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if probe.clip_norm:
            nn.utils.clip_grad_norm_(network.parameters(), probe.clip_norm)
        optimizer.step()
        losses[step] = loss.detach()
    return losses


@torch.no_grad()
def _start_from_data(network: Network, maps: Maps, rows: Tensor, count: int) -> None:
    """Initialize the pool from descriptors if it supports that, collected as the first training steps see them.

    The network is in training mode, in which the batch norm of a new reduction has the scale of the features.
    """
    if network.pool.init_from is None:
        return
    network.train()
    found: list[Tensor] = []
    for row in rows:
        found.append(network.pool.descriptors(maps.batch(row)[0]))
        if sum(map(len, found)) >= 4 * count:  # more than needed, so that they come from many images
            break
    every = torch.cat(found)
    network.pool.init_from(every[torch.randperm(len(every))[:count].to(every.device)])
