"""Fitting a pool and a linear classifier to the frozen features of a backbone."""

import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from covpool._errors import CovpoolError
from covpool._progress import OnProgress, discard
from covpool.data import Images
from covpool.data.sets import open_data
from covpool.engine.evaluation import Evaluation, Interval, summarize_scores
from covpool.models import Network
from covpool.studies.fit._choice import Trial
from covpool.studies.fit._compare import Comparison, OnNote
from covpool.studies.fit._features import TappedBackbone
from covpool.studies.fit._files import Outcome, check_folder, save_fit
from covpool.studies.fit._network import build_network, score_test_set
from covpool.studies.fit._settings import Fit


def ignore_note(note: str) -> None:
    """Discard notes."""


@dataclass(frozen=True, eq=False)
class FitResult:
    """The result of a fit.

    Attributes:
        network: The network, in evaluation mode.
        checkpoint: Its checkpoint.
        evaluation: Accuracy on the test set, with intervals, the confusion matrix and the accuracy of every class.
        table: The cross-validation of every candidate.
        chosen: The candidate that was chosen.
        notes: What was done, in sentences.
        seconds: Time of the fit.
    """

    network: Network
    checkpoint: Path
    evaluation: Evaluation
    table: tuple[Trial, ...]
    chosen: Trial
    notes: tuple[str, ...]
    seconds: float

    @property
    def accuracy(self) -> float:
        """Accuracy on the test set."""
        return self.evaluation.accuracy["top1"]

    @property
    def interval(self) -> Interval:
        """95 % interval of the accuracy (Wilson's)."""
        return self.evaluation.interval["top1"]


def fit(folder: str | os.PathLike[str], *, on_progress: OnProgress = discard, **settings: Any) -> FitResult:
    """Fit a pool and a linear classifier to the frozen features of a pre-trained backbone.

    The feature maps of the training images and of their flipped copies are computed once. For pools of second order,
    PCA reduces their channels. The classifier is logistic regression with a cross-validated penalty. By default pool,
    image size and tap are chosen by cross-validation too. The test images are used once, for the accuracy.

    Args:
        folder: Folder with train/CLASS/IMAGE and test/CLASS/IMAGE, or with CLASS/IMAGE, which is split at random.
        on_progress: Called with the progress.
        settings: Settings of `covpool.studies.fit.Fit`, such as backbone="resnet50", pool="isqrt", size=320 or
            out="runs/birds". Settings of the data are a table: data={"name": "cub"}.

    Returns:
        The network, its accuracy with the 95 % interval, the table of candidates, and the checkpoint, which
        `covpool.load`, `covpool predict`, `covpool eval`, `covpool export` and `covpool train` take.
    """
    settings["data"] = {"root": os.fspath(folder), **dict(settings.get("data", {}))}
    return run_fit(Fit(**settings), on_progress=on_progress)


def run_fit(settings: Fit, *, on_progress: OnProgress = discard, on_note: OnNote = ignore_note) -> FitResult:
    """Fit as the settings say; see `fit`.

    Args:
        settings: The settings.
        on_progress: Called with the progress.
        on_note: Receives sentences on what is done, before the work begins.
    """
    begin = time.perf_counter()
    settings = _resolved(settings)
    check_folder(settings.folder)
    splits = open_data(settings.data)
    _check_training_images(splits.train, settings)
    backbone = TappedBackbone(settings, torch.device(settings.device))
    comparison = Comparison(settings, backbone, splits.train, on_progress, on_note)
    fitted = comparison.run()
    network = build_network(settings, backbone.features, fitted, len(splits.train.classes))
    augment = backbone.augment(fitted.trial.candidate.size)
    scores = score_test_set(network.to(backbone.device), splits.test, augment, settings, on_progress)
    evaluation = summarize_scores(*scores, splits.test.classes)
    seconds = time.perf_counter() - begin
    outcome = Outcome(network.cpu(), augment, fitted, tuple(comparison.trials), seconds)
    checkpoint = save_fit(settings, splits, outcome, scores, evaluation)
    notes = tuple(comparison.notes)
    return FitResult(network, checkpoint, evaluation, outcome.trials, fitted.trial, notes, seconds)


def _resolved(settings: Fit) -> Fit:
    """Fill in the device and the random split of a flat folder."""
    device = settings.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    data = settings.data
    seed = settings.seed if data.split_seed is None else data.split_seed
    fraction = settings.test_fraction if data.test_fraction is None else data.test_fraction
    return settings.changed(device=device, data=data.changed(split_seed=seed, test_fraction=fraction))


def _check_training_images(images: Images, settings: Fit) -> None:
    """Refuse classes that cross-validation cannot hold an image out of, before features are computed."""
    counts = Counter(images.targets)
    target, count = min(counts.items(), key=lambda item: item[1])
    if count < 2:
        raise CovpoolError(
            "every class must have two training images or more, because the penalty is chosen by cross-validation; "
            f"{images.classes[target]} of {settings.data.root} has {count}: add images, or remove the class"
        )
