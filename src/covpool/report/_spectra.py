"""Spectra of a sample of test images."""

from dataclasses import replace

import torch
from torch import Tensor

from covpool._errors import CovpoolError
from covpool.data import Images
from covpool.data.pipeline import EvalBatches
from covpool.diagnostics import Spectra, pool_spectra
from covpool.engine import infer, select_rows
from covpool.engine.evaluation import LoadedCheckpoint
from covpool.recipe import Recipe

SAMPLE, LARGE_SAMPLE, LARGE = 32, 8, 1024  # number of images; fewer if there are more channels than LARGE


def sample_spectra(checkpoint: LoadedCheckpoint, recipe: Recipe, images: Images, device: str) -> Spectra:
    """Compute the eigenvalues before and after the pool for images evenly spaced in a test set.

    Args:
        checkpoint: The checkpoint.
        recipe: The recipe of its training.
        images: The test set.
        device: Device that runs the network.
    """
    network = checkpoint.network
    count = min(len(images), SAMPLE if network.pool.channels[0] <= LARGE else LARGE_SAMPLE)
    numbers = torch.linspace(0, len(images) - 1, count).long().tolist()
    data = recipe.data.changed(broken="skip", cache="none", workers=0)
    batches = EvalBatches(images.select(numbers), checkpoint.augment, data, batch_size=LARGE_SAMPLE, device=device)

    def forward(x: Tensor) -> Spectra:
        features = network.forward_features(x)
        return pool_spectra(network.pool, *(features if isinstance(features, tuple) else (features,)))

    readable = select_rows(batches, lambda batch: ~batch.broken)
    found: list[Spectra] = [one.outputs[0] for one in infer(network, readable, forward)]
    if not found:
        raise CovpoolError("no image of the sample could be read")
    after = None if found[0].after is None else torch.cat([one.after for one in found if one.after is not None])
    return replace(found[0], before=torch.cat([one.before for one in found]), after=after)
