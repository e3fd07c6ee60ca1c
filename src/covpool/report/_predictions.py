"""The predictions of a run's network on its test set, saved by the training or computed again, and its spectra."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from covpool._errors import CovpoolError
from covpool.data import Images
from covpool.data.pipeline import EvalBatches
from covpool.data.sets import Splits
from covpool.diagnostics import Spectra
from covpool.engine import compute_scores
from covpool.engine.evaluation import SCORES_FILE, LoadedCheckpoint, check_classes, read_scores
from covpool.recipe import Recipe
from covpool.report._section import Section, required
from covpool.studies.paper import image_spectra

BATCH_SIZE = 64
SAMPLE, LARGE_SAMPLE, LARGE = 32, 8, 1024  # number of images; fewer if there are more channels than LARGE


@dataclass(frozen=True)
class Predictions:
    """The predictions of a network on a test set.

    Attributes:
        logits: Logits (n, classes).
        targets: Targets (n,); -1 = unknown or could not be read.
        classes: Class names.
        images: The test set; None if its files are not available.
    """

    logits: Tensor
    targets: Tensor
    classes: tuple[str, ...]
    images: Images | None = None

    @cached_property
    def predicted(self) -> Tensor:  # (n,)
        """The predicted classes."""
        return self.logits.argmax(1)

    def probability(self, i: int, label: int) -> float:
        """The probability of a class for image i."""
        return float(self.logits[i].double().softmax(0)[label])


def predictions_of_run(
    run: Path, checkpoint: LoadedCheckpoint, recipe: Recipe, data: Section[Splits], device: str
) -> Predictions:
    """The predictions of a checkpoint on the test set. Scores that the training saved are used if they belong to it.

    Args:
        run: The folder of the run.
        checkpoint: A checkpoint of the run.
        recipe: The recipe of the run.
        data: The data of the run, if they are available.
        device: Device that runs the network.
    """
    images = None if data.value is None else data.value.test
    classes = checkpoint.about.class_names
    saved = read_scores(run / SCORES_FILE, checkpoint.about.path, recipe, images)
    if saved is None or classes is None:
        return predict_test_set(checkpoint, recipe, required(data), device)
    return Predictions(saved.logits, saved.targets, classes, images)


def predict_test_set(checkpoint: LoadedCheckpoint, recipe: Recipe, splits: Splits, device: str) -> Predictions:
    """Run a checkpoint on the test set, with the crops, flips and precision of the recipe.

    Args:
        checkpoint: The checkpoint.
        recipe: The recipe of its training.
        splits: The data.
        device: Device that runs the network.
    """
    check_classes(checkpoint, splits.test.classes)
    settings = recipe.evaluate
    batches = EvalBatches(
        splits.test,
        checkpoint.augment,
        recipe.data,
        batch_size=max(1, BATCH_SIZE // settings.crops),
        crops=settings.crops,
        device=device,
    )
    precision = recipe.train.precision
    logits, targets = compute_scores(checkpoint.network, batches, flip=settings.flip, precision=precision)
    return Predictions(logits, targets, splits.test.classes, splits.test)


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
    data = recipe.data.changed(workers=0)
    found = list(image_spectra(checkpoint, images.select(numbers), data, device))
    if not found:
        raise CovpoolError("no image of the sample could be read")
    after = None if found[0].after is None else torch.cat([one.after for one in found if one.after is not None])
    return replace(found[0], before=torch.cat([one.before for one in found]), after=after)
