"""Class names and probabilities of images."""

from collections.abc import Iterator, Sequence
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
    for batch in batches:
        found = {}
        readable = select_rows([batch], lambda batch: ~batch.broken)
        for kept, logits in infer_logits(loaded.network, readable, flip=how.flip, precision=how.precision):
            found = dict(zip(kept.index.tolist(), logits.softmax(1).cpu(), strict=True))
        for i in batch.index.tolist():
            if i not in found:
                yield Prediction(files.paths[i], error=_reason(files, i, loaded.augment))
                continue
            values, labels = found[i].topk(min(top, len(names)))
            pairs = zip(labels.tolist(), values.tolist(), strict=True)
            yield Prediction(files.paths[i], tuple((names[label], value) for label, value in pairs))


def _reason(images: Images, index: int, augment: ResolvedAugment) -> str:
    """Why an image cannot be read, found by reading it again."""
    try:
        eval_transform(augment)(images.load(index))
    except BrokenImage as broken:
        return broken.reason
    return "it could not be read at first"
