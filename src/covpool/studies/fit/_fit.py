"""Fitting a pool and a linear classifier to the frozen features of a backbone."""

import os
import time
from collections import Counter
from typing import Any

import torch

import covpool
from covpool._device import usable_device
from covpool._errors import CovpoolError
from covpool._progress import OnProgress, ignore
from covpool.data import Images
from covpool.data.pipeline import EvalBatches
from covpool.data.sets import open_data
from covpool.engine import compute_scores, with_progress
from covpool.engine.evaluation import summarize_scores
from covpool.engine.training import BEST_CHECKPOINT, RunLock
from covpool.models import Backbone, Network
from covpool.studies.fit._compare import CandidateComparison, FittedPool, OnNote
from covpool.studies.fit._features import TappedBackbone
from covpool.studies.fit._files import FitResult, check_folder, save_fit
from covpool.studies.fit._settings import Fit


def fit(folder: str | os.PathLike[str], *, on_progress: OnProgress = ignore, **settings: Any) -> FitResult:
    """Fit a pool and a linear classifier to the frozen features of a pre-trained backbone.

    The feature maps of the training images and of their flipped copies are computed once. PCA reduces
    the channels for most pools. The classifier is logistic regression with a cross-validated penalty. By default pool,
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


def run_fit(settings: Fit, *, on_progress: OnProgress = ignore, on_note: OnNote = ignore) -> FitResult:
    """Fit as the settings say; see `fit`.

    Args:
        settings: The settings.
        on_progress: Called with the progress.
        on_note: Receives sentences on what is done, before the work begins.
    """
    begin = time.perf_counter()
    settings = _resolved(settings)
    check_folder(settings.folder)
    with RunLock(settings.folder):
        check_folder(settings.folder)
        return _fit(settings, begin, on_progress, on_note)


def _fit(settings: Fit, begin: float, on_progress: OnProgress, on_note: OnNote) -> FitResult:
    splits = open_data(settings.data)
    _check_training_images(splits.train, settings)
    backbone = TappedBackbone(settings, torch.device(settings.device))
    comparison = CandidateComparison(settings, backbone, splits.train, on_progress, on_note)
    fitted = comparison.run()
    network = _build_network(settings, backbone.features, fitted, len(splits.train.classes))
    batches = EvalBatches(
        splits.test, fitted.augment, settings.data, batch_size=settings.batch_size, device=backbone.device
    )
    scores = compute_scores(network.to(backbone.device), with_progress(batches, "test images", on_progress))
    result = FitResult(
        network=network.cpu(),
        checkpoint=settings.folder / BEST_CHECKPOINT,
        evaluation=summarize_scores(*scores, splits.test.classes),
        table=tuple(comparison.trials),
        chosen=fitted.trial,
        notes=tuple(comparison.notes),
        seconds=time.perf_counter() - begin,
    )
    save_fit(result, settings, splits, fitted, scores)
    return result


def _resolved(settings: Fit) -> Fit:
    """Fill in the device and the random split of a flat folder."""
    device, data = usable_device(settings.device, "`device`"), settings.data
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


def _build_network(settings: Fit, features: Backbone, fitted: FittedPool, classes: int) -> Network:
    """Build the fitted network; `covpool.load` builds it again in the same way.

    Args:
        settings: The settings of the fit.
        features: The backbone with its weights.
        fitted: The pool and the classifier.
        classes: Number of classes.
    """
    network = covpool.attach(
        settings.backbone,
        fitted.spec.name,
        classes,
        keep_last_stride=True,
        levels=(fitted.tap.level,) if fitted.tap.level else (),
        backbone_options=settings.backbone_options or None,
        **fitted.spec.options,
    )
    known = features.state_dict()
    network.features.load_state_dict({name: known[name] for name in network.features.state_dict()})
    network.pool.load_state_dict(fitted.frozen.pool.state_dict())
    network.classifier = fitted.frozen.classifier()
    return network.eval()
