"""Labels and probabilities for pictures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from covpool.data import UNKNOWN, BrokenImage, Images, Paths
from covpool.data.pipeline import eval_transform
from covpool.engine.evaluation._evaluate import Checkpoint


@dataclass(frozen=True)
class Prediction:
    """What a network says of one picture: classes with probabilities, likeliest first; or why it could not be read."""

    path: Path
    classes: tuple[tuple[str, float], ...] = ()
    error: str = ""


@torch.no_grad()
def predict(
    checkpoint: Path, pictures: Sequence[Path], *, top: int = 5, flip: bool = False, batch_size: int = 32,
    device: str = "cpu",
) -> Iterator[Prediction]:  # fmt: skip
    """Predict the classes of pictures, in their order; one that cannot be read tells so and does not stop the others.

    Args:
        checkpoint: of `covpool train` or `covpool.save`; the preprocessing it was saved with is applied.
        pictures: files.
        top: how many classes to name.
        flip: average the logits over the mirror image, as `covpool eval --flip` does.
        batch_size: pictures at a time.
        device: where.
    """
    model = Checkpoint.read(checkpoint, device)
    names = model.classes or tuple(str(i) for i in range(model.network.num_classes))
    transform = eval_transform(model.augment)
    images = Images(Paths(pictures), [UNKNOWN] * len(pictures), names)
    for numbers in torch.arange(len(images)).split(batch_size):
        inputs, errors = {}, {}
        for i in numbers.tolist():
            try:
                inputs[i] = transform(images.load(i))
            except BrokenImage as broken:
                errors[i] = broken.reason
        found = {}
        if inputs:
            x = torch.stack(list(inputs.values())).to(device)
            logits = model.network(x).float()
            if flip:
                logits = (logits + model.network(x.flip(-1)).float()) / 2
            found = dict(zip(inputs, logits.softmax(1).cpu(), strict=True))
        for i in numbers.tolist():
            if i in errors:
                yield Prediction(images.paths[i], error=errors[i])
                continue
            values, labels = found[i].topk(min(top, len(names)))
            pairs = zip(labels.tolist(), values.tolist(), strict=True)
            yield Prediction(images.paths[i], tuple((names[label], value) for label, value in pairs))
