"""What the trained network of a run says of the test images, found anew from its checkpoint."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from covpool._errors import CovpoolError
from covpool.data import Images, Paths
from covpool.data.pipeline import EvalBatches
from covpool.data.sets import Splits
from covpool.diagnostics import Spectra, pool_spectra
from covpool.engine import scores
from covpool.engine.evaluation import Checkpoint, check_classes
from covpool.engine.training import BEST_CHECKPOINT, LAST_CHECKPOINT
from covpool.recipe import Precision, Recipe

AT_ONCE = 64  # images
SAMPLE, LARGE_SAMPLE, LARGE = 32, 8, 1024  # images whose spectra are looked at; fewer with more channels than that
HALF: dict[Precision, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Answers:
    """What the network answers for every test image."""

    images: Images
    logits: Tensor  # (n, classes)
    targets: Tensor  # (n,), -1 = unknown or could not be read

    @cached_property
    def predicted(self) -> Tensor:  # (n,)
        return self.logits.argmax(1)

    def probability(self, i: int, label: int) -> float:
        return float(self.logits[i].double().softmax(0)[label])


def checkpoint_of(run: Path) -> Path:
    """The best checkpoint of a run, else its last: without known test classes there is no best one."""
    for name in (BEST_CHECKPOINT, LAST_CHECKPOINT):
        if (run / name).is_file():
            return run / name
    raise CovpoolError(f"there is no checkpoint in {run} yet")


def answer(checkpoint: Checkpoint, recipe: Recipe, splits: Splits, device: str) -> Answers:
    """The scores of the test images under the recipe's own protocol and precision."""
    check_classes(checkpoint, splits.test.classes)
    settings = recipe.evaluate
    batches = EvalBatches(
        splits.test,
        checkpoint.augment,
        recipe.data,
        batch_size=max(1, AT_ONCE // settings.crops),
        crops=settings.crops,
        device=device,
    )
    with _autocast(recipe.train.precision, device):
        logits, targets = scores(checkpoint.network, batches, flip=settings.flip)
    return Answers(splits.test, logits, targets)


@torch.no_grad()
def sample_spectra(checkpoint: Checkpoint, recipe: Recipe, images: Images, device: str) -> Spectra:
    """The eigenvalues before and after the pool of images taken evenly from the test."""
    channels = checkpoint.network.pool.channels[0]
    count = min(len(images), SAMPLE if channels <= LARGE else LARGE_SAMPLE)
    numbers = torch.linspace(0, len(images) - 1, count).long().tolist()
    chosen = Images(Paths(images.paths[i] for i in numbers), [images.targets[i] for i in numbers], images.classes)
    data = recipe.data.changed(broken="skip", cache="none", workers=0)
    found: list[Spectra] = []
    for batch in EvalBatches(chosen, checkpoint.augment, data, batch_size=LARGE_SAMPLE, device=device):
        x = batch.x[~batch.broken.to(batch.x.device)]
        if len(x):
            features = checkpoint.network.forward_features(x)
            maps = features if isinstance(features, tuple) else (features,)
            found.append(pool_spectra(checkpoint.network.pool, *maps))
    if not found:
        raise CovpoolError("no picture of the sample could be read")
    after = None if found[0].after is None else torch.cat([one.after for one in found if one.after is not None])
    return replace(found[0], before=torch.cat([one.before for one in found]), after=after)


def _autocast(precision: Precision, device: str) -> AbstractContextManager[None]:
    dtype = HALF.get(precision)
    return nullcontext() if dtype is None else torch.autocast(torch.device(device).type, dtype)
