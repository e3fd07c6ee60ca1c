"""Class names and probabilities of images."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from covpool.data import UNKNOWN, BrokenImage, Data, Images, Paths, ResolvedAugment
from covpool.data.pipeline import EvalBatches, eval_transform
from covpool.engine._infer import infer_logits, select_rows
from covpool.engine.evaluation._evaluate import EvaluationProtocol, LoadedCheckpoint


@dataclass(frozen=True)
class Prediction:
    """The prediction for one image.

    Attributes:
        path: The image file.
        classes: Class names with probabilities, most probable first.
        error: Why the image could not be read; empty if it could.
    """

    path: Path
    classes: tuple[tuple[str, float], ...] = ()
    error: str = ""


def predict(
    checkpoint: Path,
    images: Sequence[Path],
    *,
    top: int = 5,
    flip: bool | None = None,
    batch_size: int = 32,
    device: str = "cpu",
) -> Iterator[Prediction]:
    """Predict the classes of images, in their order. An image that cannot be read gives a prediction with an error.

    Args:
        checkpoint: A file of `covpool train` or `covpool.save`; its preprocessing is applied.
        images: The image files.
        top: Number of classes per image.
        flip: Average the logits over the flipped image; None = as in the training. Crops and precision are too.
        batch_size: Images per batch.
        device: Device that runs the network.
    """
    loaded = LoadedCheckpoint.read(checkpoint, device)
    loaded.check_classifier()
    names = loaded.about.class_names or tuple(str(i) for i in range(loaded.network.num_classes))
    files = Images(Paths(images), [UNKNOWN] * len(images), names)
    data = Data(broken="skip", workers=0)
    how = EvaluationProtocol(flip=flip).settings_for(loaded.about)
    batches = EvalBatches(files, loaded.augment, data, batch_size=batch_size, crops=how.crops, device=device)
    readable = select_rows(batches, lambda batch: ~batch.broken)
    done = 0
    for kept, logits in infer_logits(loaded.network, readable, flip=how.flip, precision=how.precision):
        found = logits.softmax(1).cpu().topk(min(top, len(names)))
        for i, values, labels in zip(kept.index.tolist(), found.values.tolist(), found.indices.tolist(), strict=True):
            yield from _unreadable(files, range(done, i), loaded.augment)
            pairs = zip(labels, values, strict=True)
            yield Prediction(files.paths[i], tuple((names[label], value) for label, value in pairs))
            done = i + 1
    yield from _unreadable(files, range(done, len(files)), loaded.augment)


def _unreadable(images: Images, numbers: Iterable[int], augment: ResolvedAugment) -> Iterator[Prediction]:
    """Tell why images, which the network has not seen, cannot be read."""
    for i in numbers:
        yield Prediction(images.paths[i], error=_reason(images, i, augment))


def _reason(images: Images, index: int, augment: ResolvedAugment) -> str:
    """Why an image cannot be read, found by reading it again."""
    try:
        eval_transform(augment)(images.load(index))
    except BrokenImage as broken:
        return broken.reason
    return "it could not be read at first"
