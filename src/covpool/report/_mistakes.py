"""Which classes are confused with which, with example images."""

import base64
import io
from dataclasses import dataclass

import torch
from PIL.Image import Image
from torch import Tensor

from covpool.data import BrokenImage, Images
from covpool.engine.evaluation import Evaluation, Interval, wilson
from covpool.report._predictions import Predictions

PAIRS, IMAGES, WORST = 6, 3, 10  # pairs of classes, images of each, rows of the confusion matrix
COLUMNS = 12  # columns of the confusion matrix; the other classes are summed up
SIDE = 220  # largest side of an image in the page, in pixels


@dataclass(frozen=True)
class ExampleImage:
    """A test image with its prediction.

    Attributes:
        source: The image as a data URI; empty if it cannot be read.
        name: The last two parts of its path.
        probability: Probability of the predicted class.
        true_probability: Probability of the true class.
    """

    source: str
    name: str
    probability: float
    true_probability: float


@dataclass(frozen=True)
class ConfusedPair:
    """A class that is mistaken for another.

    Attributes:
        true: Name of the true class.
        predicted: Name of the predicted class.
        count: Number of such mistakes.
        images: Number of images of the true class.
        mistakes: The mistakes with the highest probability.
        example: An image of the predicted class that was recognized, if there is one.
    """

    true: str
    predicted: str
    count: int
    images: int
    mistakes: list[ExampleImage]
    example: ExampleImage | None


@dataclass(frozen=True)
class ConfusionRow:
    """A row of the confusion matrix.

    Attributes:
        name: Name of the class.
        images: Number of its images.
        accuracy: Its accuracy.
        interval: 95 % confidence interval of the accuracy.
        cells: For each column, the number of images, and whether the column is the class itself.
        others: Number of images predicted as a class without a column.
    """

    name: str
    images: int
    accuracy: float
    interval: Interval
    cells: list[tuple[int, bool]]
    others: int


@dataclass(frozen=True)
class Mistakes:
    """The worst classes and what they are mistaken for, and the most frequent mistakes.

    Attributes:
        columns: Class names of the columns.
        rows: Rows of the confusion matrix, worst class first.
        pairs: The most confused pairs of classes.
        classes: Number of classes with test images.
        wrong: Number of wrong predictions.
    """

    columns: list[str]
    rows: list[ConfusionRow]
    pairs: list[ConfusedPair]
    classes: int
    wrong: int

    @property
    def largest_share(self) -> float:
        """The largest share of a class that is mistaken for one other class: the end of the color scale."""
        return max((n / row.images for row in self.rows for n, own in row.cells if not own), default=0.0) or 1.0


def find_mistakes(predictions: Predictions, evaluation: Evaluation) -> Mistakes:
    """Find the worst classes and the most confused pairs of classes."""
    counts = evaluation.confusion.sum(1)
    hits = evaluation.confusion.diagonal()
    shares = torch.where(counts > 0, hits / counts.clamp(min=1), 2.0)  # classes without images come last
    chosen = shares.argsort(stable=True)[: min(WORST, int((counts > 0).sum()))]
    columns = _columns(evaluation.confusion, chosen)
    rows = [_row(evaluation, label, columns) for label in chosen.tolist()]
    names = [evaluation.classes[label] for label in columns]
    return Mistakes(names, rows, _pairs(predictions, evaluation), int((counts > 0).sum()), int((counts - hits).sum()))


def _columns(confusion: Tensor, chosen: Tensor) -> list[int]:
    """The chosen classes, then the classes they are most often mistaken for."""
    totals = confusion[chosen].sum(0)
    own: list[int] = chosen.tolist()
    others = [i for i in totals.argsort(descending=True, stable=True).tolist() if totals[i] and i not in own]
    return [*own, *others][: max(COLUMNS, len(own))]


def _row(evaluation: Evaluation, label: int, columns: list[int]) -> ConfusionRow:
    line = evaluation.confusion[label]
    images, hits = int(line.sum()), int(line[label])
    cells = [(int(line[column]), column == label) for column in columns]
    others = images - sum(count for count, _ in cells)
    return ConfusionRow(evaluation.classes[label], images, hits / images, wilson(hits, images), cells, others)


def _pairs(predictions: Predictions, evaluation: Evaluation) -> list[ConfusedPair]:
    wrong = evaluation.confusion.clone().fill_diagonal_(0)
    counts, cells = wrong.flatten().topk(min(PAIRS, wrong.numel()))
    return [
        _pair(predictions, evaluation, *divmod(cell, len(evaluation.classes)))
        for count, cell in zip(counts.tolist(), cells.tolist(), strict=True)
        if count
    ]


def _pair(predictions: Predictions, evaluation: Evaluation, true: int, predicted: int) -> ConfusedPair:
    is_predicted = predictions.predicted == predicted
    mistaken = ((predictions.targets == true) & is_predicted).nonzero().flatten()
    right = ((predictions.targets == predicted) & is_predicted).nonzero().flatten()
    mistakes = [
        example_image(predictions, i, true, predicted) for i in _surest(predictions, mistaken, predicted)[:IMAGES]
    ]
    best = _surest(predictions, right, predicted)
    example = example_image(predictions, best[0], predicted, predicted) if best else None
    counts = evaluation.confusion[true]
    names = evaluation.classes
    return ConfusedPair(names[true], names[predicted], int(counts[predicted]), int(counts.sum()), mistakes, example)


def _surest(predictions: Predictions, numbers: Tensor, label: int) -> list[int]:
    """Sort images by the probability of a class, highest first."""
    probability = predictions.logits[numbers].double().log_softmax(1)[:, label]
    return numbers[probability.argsort(descending=True, stable=True)].tolist()


def example_image(predictions: Predictions, i: int, true: int, predicted: int) -> ExampleImage:
    """Image i of a test set, with the probabilities of its true and of its predicted class."""
    images = predictions.images
    source = "" if images is None else data_uri(images, i)
    name = f"test image {i}" if images is None else "/".join(images.paths[i].parts[-2:])
    return ExampleImage(source, name, predictions.probability(i, predicted), predictions.probability(i, true))


def data_uri(images: Images, i: int, side: int = SIDE) -> str:
    """A small copy of image i as a data URI; empty if it cannot be read."""
    try:
        return as_data_uri(images.load(i), side)
    except BrokenImage:
        return ""


def as_data_uri(image: Image, side: int = SIDE) -> str:
    """A small copy of an image as a data URI."""
    image.thumbnail((side, side))
    written = io.BytesIO()
    image.save(written, "JPEG", quality=82)
    return "data:image/jpeg;base64," + base64.b64encode(written.getvalue()).decode()
