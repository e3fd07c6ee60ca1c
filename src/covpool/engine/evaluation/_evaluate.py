"""Evaluation of checkpoints on a data set: crops, flips, fusion of several, softmax or SVM."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from covpool._errors import CovpoolError
from covpool._progress import OnProgress, ignore
from covpool.data import Augment, Data, Images, ResolvedAugment
from covpool.data.pipeline import Batch, Crops, EvalBatches, augment_of
from covpool.data.sets import Splits
from covpool.engine._infer import compute_scores, with_progress
from covpool.engine._same_split import check_same_split
from covpool.engine.evaluation._representations import Representations, compute_representations
from covpool.engine.evaluation._summary import Evaluation, summarize_scores
from covpool.engine.evaluation._svm import fit_svm
from covpool.engine.evaluation._tensor_files import cached, file_digest, image_marks
from covpool.io import Checkpoint, EvaluationSettings, read_checkpoint
from covpool.models import Network
from covpool.recipe import Precision


@dataclass(frozen=True, kw_only=True)
class EvaluationProtocol:
    """How checkpoints are evaluated. What is None is as in the training of each checkpoint.

    Attributes:
        crops: 1 (the center) or 10 (corners and center, each with its flip).
        flip: Average the scores of the image and its flip. The SVM always does.
        precision: Precision of the forward pass. The SVM uses float32.
        classifier: The network's own classifier, or SVMs trained on its representations.
        batch_size: Images per batch.
        device: Device that runs the network.
        features: Folder that keeps representations for the SVM; None keeps none.
        force: Evaluate on a split whose test images the checkpoints may have been trained on, with a warning.
        on_progress: Called after every batch.
    """

    crops: Crops | None = None
    flip: bool | None = None
    precision: Precision | None = None
    classifier: Literal["softmax", "svm"] = "softmax"
    batch_size: int = 64
    device: str = "cpu"
    features: Path | None = None
    force: bool = False
    on_progress: OnProgress = ignore

    def settings_for(self, checkpoint: Checkpoint) -> EvaluationSettings:
        """The settings for a checkpoint, those that are None filled in from its training."""
        own = checkpoint.evaluation or EvaluationSettings()
        given = {name: getattr(self, name) for name in ("crops", "flip", "precision")}
        return own.model_copy(update={name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True)
class LoadedCheckpoint:
    """A network read from a checkpoint, with the description of the checkpoint.

    Attributes:
        about: The description: class names, versions, training.
        network: The network.
        augment: How images are resized, cropped and normalized for it.
    """

    about: Checkpoint
    network: Network
    augment: ResolvedAugment

    @staticmethod
    def read(path: Path, device: str) -> "LoadedCheckpoint":
        """Read a checkpoint.

        Args:
            path: A file of `covpool train` or `covpool.save`.
            device: Device of the network.
        """
        about = read_checkpoint(path)
        network, saved = about.load(device=device), about.preprocessing
        augment = Augment().resolved(network.input_settings) if saved is None else augment_of(saved)
        return LoadedCheckpoint(about, network, augment)

    def check_classifier(self) -> None:
        """Refuse a network that gives vectors only."""
        if self.network.num_classes < 2:
            raise CovpoolError(
                f"{self.about.path} has no trained classifier, as `covpool embed` saves it: use a checkpoint of "
                "`covpool fit` or `covpool train`"
            )


def evaluate(paths: Sequence[Path], splits: Splits, data: Data, protocol: EvaluationProtocol) -> Evaluation:
    """Evaluate one checkpoint, or the fusion of several; see `fused_scores` for the arguments."""
    scores, targets = fused_scores(paths, splits, data, protocol)
    return summarize_scores(scores, targets, splits.test.classes, probabilities=protocol.classifier == "softmax")


def fused_scores(
    paths: Sequence[Path], splits: Splits, data: Data, protocol: EvaluationProtocol
) -> tuple[Tensor, Tensor]:  # (n, classes), (n,)
    """Compute the scores and targets of the test set.

    Softmax: the logarithm of the probabilities, averaged over the checkpoints. SVM: the scores, averaged likewise.

    Args:
        paths: The checkpoints; all must have the classes of the data.
        splits: The data; SVMs are trained on the training set.
        data: How its images are read.
        protocol: How the images are scored.
    """
    if not paths:
        raise CovpoolError("there is no checkpoint to evaluate: name at least one file")
    found = []
    for path in paths:
        checkpoint = LoadedCheckpoint.read(path, protocol.device)
        check_classes(checkpoint, splits.test.classes)
        check_same_split(checkpoint.about, data, splits, force=protocol.force)
        if protocol.classifier == "svm":
            scores, targets = _svm_scores(checkpoint, splits, data, protocol)
        else:
            how = protocol.settings_for(checkpoint.about)
            batches = _batches(checkpoint, splits.test, data, protocol, f"test set, {path.name}", how.crops)
            logits, targets = compute_scores(checkpoint.network, batches, flip=how.flip, precision=how.precision)
            scores = logits.double().softmax(1)
        found.append(scores.double())
    mean = torch.stack(found).mean(0)
    return (mean if protocol.classifier == "svm" else mean.log()), targets


def check_classes(checkpoint: LoadedCheckpoint, classes: Sequence[str]) -> None:
    """Refuse data whose classes are not those of the checkpoint."""
    checkpoint.check_classifier()
    path, known = checkpoint.about.path, checkpoint.about.class_names
    if checkpoint.network.num_classes != len(classes):
        raise CovpoolError(
            f"{path} has {checkpoint.network.num_classes} classes and the data has {len(classes)}: "
            "evaluate it on the data set it was trained for"
        )
    if known is not None and known != tuple(classes):
        own, other = next(pair for pair in zip(known, classes, strict=True) if pair[0] != pair[1])
        raise CovpoolError(
            f"{path} and the data have different classes: {own!r} in the checkpoint is {other!r} in the "
            "data: evaluate it on the data set it was trained for"
        )


def _svm_scores(
    checkpoint: LoadedCheckpoint, splits: Splits, data: Data, protocol: EvaluationProtocol
) -> tuple[Tensor, Tensor]:
    """Train calibrated SVMs on the training images and their flips; test scores are averaged over both."""
    train = _representations(checkpoint, splits.train, data, protocol, "training")
    test = _representations(checkpoint, splits.test, data, protocol, "test")
    known = (train.targets >= 0).nonzero().squeeze(1)
    z = train.z.new_empty(2, len(known), train.z.shape[1])
    for side, out in zip((train.z, train.flipped), z, strict=True):  # in place: they are large
        torch.index_select(side, 0, known, out=out)
    z, targets = z.flatten(0, 1), train.targets[known].repeat(2)
    del train

    def on_epoch(epoch: int, gap: float) -> None:
        protocol.on_progress(f"SVM, gap {gap:.1e}", epoch, 0)

    _check_every_class(targets, splits.train.classes)
    svm = fit_svm(z, targets, classes=len(splits.train.classes), on_epoch=on_epoch).calibrated(z, targets)
    return (svm.scores(test.z) + svm.scores(test.flipped)) / 2, test.targets


def _check_every_class(targets: Tensor, classes: Sequence[str]) -> None:
    known = set(targets.tolist())
    if missing := [name for target, name in enumerate(classes) if target not in known]:
        raise CovpoolError(
            f"an SVM needs a readable training image of every class; there is none of {', '.join(missing[:10])}: "
            "repair its images, or leave the class out"
        )


def _representations(
    checkpoint: LoadedCheckpoint, images: Images, data: Data, protocol: EvaluationProtocol, part: str
) -> Representations:
    key: dict[str, object] = {
        "kind": "representations",
        "checkpoint": file_digest(checkpoint.about.path),
        "images": image_marks(images),
        "augment": checkpoint.augment.model_dump(mode="json"),
        "broken": data.broken,
    }

    def compute() -> Representations:
        batches = _batches(checkpoint, images, data, protocol, f"representations, {part} set")
        return compute_representations(checkpoint.network, batches)

    return cached(protocol.features, key, compute, Representations)


def _batches(
    checkpoint: LoadedCheckpoint,
    images: Images,
    data: Data,
    protocol: EvaluationProtocol,
    what: str,
    crops: Crops = 1,
) -> Iterator[Batch]:
    """The batches of some images; progress is reported after each."""
    batches = EvalBatches(
        images,
        checkpoint.augment,
        data,
        batch_size=protocol.batch_size,
        crops=crops,
        device=protocol.device,
    )
    return with_progress(batches, what, protocol.on_progress)
