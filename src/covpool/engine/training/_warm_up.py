"""Preparing the first step while the training images are decoded."""

from contextlib import suppress

import torch
from torch.nn.functional import cross_entropy

from covpool.engine._devices import autocast
from covpool.engine.training._session import Session
from covpool.recipe import ResolvedStage


def decode_and_warm_up(session: Session, stage: ResolvedStage) -> None:
    """Begin to decode the training images for their cache on a GPU, and meanwhile prepare the first step.

    cuDNN takes seconds to choose and compile the kernels of a network. One forward and backward pass on random images
    makes it do so while other processes decode the training images. The pass does not change the training: the
    batch-norm statistics and the states of the random generators are restored.

    Args:
        session: The session, before its first step.
        stage: The first stage to run.
    """
    recipe, fabric = stage.recipe, session.fabric
    if fabric.device.type != "cuda" or fabric.world_size > 1 or recipe.train.freeze or recipe.train.compile:
        return
    if recipe.data.cache != "gpu":  # in memory, images are kept as the training crops them: nothing to decode ahead
        return
    session.decode("train")
    with suppress(torch.OutOfMemoryError):  # the first step runs out of memory too, and its error says what to do
        _warm_up(session, stage)
    torch.cuda.empty_cache()


def _warm_up(session: Session, stage: ResolvedStage) -> None:
    settings, device, size = stage.recipe.train, session.fabric.device, session.augment.size
    network = session.network.to(device).train()
    layout = torch.channels_last if settings.channels_last else torch.contiguous_format
    buffers = [buffer.clone() for buffer in network.buffers()]
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            x = torch.rand(settings.batch_size // settings.accumulate, 3, size, size, device=device)
            y = torch.zeros(len(x), dtype=torch.int64, device=device)
            with autocast(settings.precision, device):
                loss = cross_entropy(network(x.contiguous(memory_format=layout)).float(), y)
            loss.backward()
    finally:
        network.zero_grad(set_to_none=True)
        for buffer, value in zip(network.buffers(), buffers, strict=True):
            buffer.copy_(value)
