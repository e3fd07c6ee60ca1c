"""Evaluation of checkpoints on a data set: crops, mirror images, fusion of several, softmax or SVM."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from covpool._errors import CovpoolError
from covpool.data import Augment, Data, Images
from covpool.data.pipeline import Batch, Crops, EvalBatches, augment_of
from covpool.data.sets import Splits
from covpool.engine._infer import scores
from covpool.engine.evaluation._judgement import Judgement, judge
from covpool.engine.evaluation._pooled import Pooled, cached, file_digest, file_marks, pooled
from covpool.engine.evaluation._svm import fit_svm
from covpool.io import Preprocessing, read_checkpoint
from covpool.models import Network

Progress = Callable[[str, int, int], None]  # what is done, how many batches of how many


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How checkpoints are judged.

    Attributes:
        crops: 1 (central) or 10 (corners and centre, mirrored too).
        flip: average the scores of the picture and its mirror image; the SVM does so anyway.
        classifier: the network's own, or SVMs trained on its pooled features.
        batch_size: images at a time.
        device: where.
        features: folder in which pooled features are kept for the SVM; None keeps none.
        on_progress: called while images are worked through.
    """

    crops: Crops = 1
    flip: bool = False
    classifier: Literal["softmax", "svm"] = "softmax"
    batch_size: int = 64
    device: str = "cpu"
    features: Path | None = None
    on_progress: Progress | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A saved network with what it was saved with."""

    path: Path
    network: Network
    augment: Augment
    classes: tuple[str, ...] | None

    @staticmethod
    def read(path: Path, device: str) -> "Checkpoint":
        saved = read_checkpoint(path)
        augment = augment_of(saved.preprocessing or Preprocessing())
        return Checkpoint(path, saved.load(device=device), augment, saved.class_names)


def evaluate(paths: Sequence[Path], splits: Splits, data: Data, protocol: Protocol) -> Judgement:
    """Judge one checkpoint, or the fusion of several; arguments as for `fused_scores`."""
    found, targets = fused_scores(paths, splits, data, protocol)
    return judge(found, targets, splits.test.classes, probabilities=protocol.classifier == "softmax")


def fused_scores(
    paths: Sequence[Path], splits: Splits, data: Data, protocol: Protocol
) -> tuple[Tensor, Tensor]:  # (n, classes), (n,)
    """Scores of the test images and their classes. Several checkpoints: the logarithm of their mean probability (of
    SVMs the mean score).

    Args:
        paths: of the checkpoints; all must know the same classes as the data.
        splits: of the data; the SVM learns from its training part.
        data: how its pictures are read.
        protocol: how they are scored.
    """
    if not paths:
        raise CovpoolError("there is no checkpoint to evaluate: name at least one file")
    found = []
    for path in paths:
        checkpoint = Checkpoint.read(path, protocol.device)
        check_classes(checkpoint, splits.test.classes)
        if protocol.classifier == "svm":
            scored, targets = _svm_scores(checkpoint, splits, data, protocol)
        else:
            logits, targets = _logits(checkpoint, splits.test, data, protocol)
            scored = logits.double().softmax(1)
        found.append(scored.double())
    mean = torch.stack(found).mean(0)
    return (mean if protocol.classifier == "svm" else mean.log()), targets


def check_classes(checkpoint: Checkpoint, classes: Sequence[str]) -> None:
    """Refuse data with other classes than the checkpoint's."""
    known = checkpoint.classes
    if checkpoint.network.num_classes != len(classes):
        raise CovpoolError(
            f"{checkpoint.path} knows {checkpoint.network.num_classes} classes and the data has {len(classes)}: "
            "evaluate it on the data set it was trained for"
        )
    if known is not None and known != tuple(classes):
        first = next((mine, theirs) for mine, theirs in zip(known, classes, strict=True) if mine != theirs)
        raise CovpoolError(
            f"the classes of {checkpoint.path} are not those of the data: where it has {first[0]!r}, there is "
            f"{first[1]!r}"
        )


def _logits(checkpoint: Checkpoint, images: Images, data: Data, protocol: Protocol) -> tuple[Tensor, Tensor]:
    batches = _batches(checkpoint.augment, images, data, protocol, protocol.crops)
    told = _told(batches, len(batches), f"test, {checkpoint.path.name}", protocol)
    return scores(checkpoint.network, told, flip=protocol.flip)


def _svm_scores(checkpoint: Checkpoint, splits: Splits, data: Data, protocol: Protocol) -> tuple[Tensor, Tensor]:
    """Calibrated SVMs of the training pictures and their mirror images; test scores averaged over both."""
    train = _pooled(checkpoint, splits.train, data, protocol, "training")
    test = _pooled(checkpoint, splits.test, data, protocol, "test")
    known = (train.targets >= 0).nonzero().squeeze(1)
    z = train.z.new_empty(2, len(known), train.z.shape[1])
    for part, out in zip((train.z, train.mirrored), z, strict=True):  # one copy of them, as they are large
        torch.index_select(part, 0, known, out=out)
    z, targets = z.flatten(0, 1), train.targets[known].repeat(2)
    del train

    def tell(epoch: int, gap: float) -> None:
        if protocol.on_progress is not None:
            protocol.on_progress(f"SVM, gap {gap:.1e}", epoch, 0)

    svm = fit_svm(z, targets, classes=len(splits.train.classes), on_epoch=tell).calibrated(z, targets)
    return (svm.scores(test.z) + svm.scores(test.mirrored)) / 2, test.targets


def _pooled(checkpoint: Checkpoint, images: Images, data: Data, protocol: Protocol, part: str) -> Pooled:
    key: dict[str, object] = {
        "checkpoint": file_digest(checkpoint.path),
        "images": file_marks(images.paths),
        "augment": checkpoint.augment.model_dump(mode="json"),
        "broken": data.broken,
    }

    def compute() -> Pooled:
        batches = _batches(checkpoint.augment, images, data, protocol, 1)
        return pooled(checkpoint.network, _told(batches, len(batches), f"features, {part}", protocol))

    return cached(protocol.features, key, compute, Pooled)


def _batches(augment: Augment, images: Images, data: Data, protocol: Protocol, crops: Crops) -> EvalBatches:
    settings: dict[str, Any] = {"batch_size": protocol.batch_size, "crops": crops, "device": protocol.device}
    return EvalBatches(images, augment, data, **settings)


def _told(batches: Iterable[Batch], count: int, what: str, protocol: Protocol) -> Iterator[Batch]:
    """The same batches, with progress told after each."""
    for done, batch in enumerate(batches, 1):
        yield batch
        if protocol.on_progress is not None:
            protocol.on_progress(what, done, count)
