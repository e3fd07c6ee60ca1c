"""Which classes are taken for which others, with pictures."""

import base64
import io
from dataclasses import dataclass

import torch
from torch import Tensor

from covpool.data import BrokenImage
from covpool.engine.evaluation import Interval, Judgement, wilson
from covpool.report._findings import Answers

PAIRS, PICTURES, WORST = 6, 3, 10
COLUMNS = 12  # of the confusion matrix; the rest is summed up
SIDE = 220  # of a picture in the page, pixels


@dataclass(frozen=True)
class Picture:
    """A test picture with what the network says of it."""

    source: str  # a data URI; empty where it could not be read
    name: str
    probability: float  # of the predicted class
    true_probability: float


@dataclass(frozen=True)
class Pair:
    """A class that is taken for another."""

    true: str
    predicted: str
    count: int
    images: int  # of the true class
    pictures: list[Picture]  # the surest mistakes
    example: Picture | None  # of the predicted class, recognised


@dataclass(frozen=True)
class Row:
    """A class in the confusion matrix."""

    name: str
    images: int
    accuracy: float
    interval: Interval
    cells: list[tuple[int, bool]]  # how often it was taken for the column's class, and whether that is itself
    others: int


@dataclass(frozen=True)
class Mistakes:
    """The worst classes against those they are taken for, and the most frequent mistakes."""

    columns: list[str]
    rows: list[Row]
    pairs: list[Pair]
    classes: int  # with test images
    wrong: int

    @property
    def largest_share(self) -> float:
        """Of a class's images that were taken for one other: the end of the scale of colours."""
        return max((n / row.images for row in self.rows for n, own in row.cells if not own), default=0.0) or 1.0


def find_mistakes(answers: Answers, judgement: Judgement) -> Mistakes:
    """The worst classes and the most confused pairs of a judged network."""
    counts = judgement.confusion.sum(1)
    hits = judgement.confusion.diagonal()
    shares = torch.where(counts > 0, hits / counts.clamp(min=1), 2.0)  # a class without images is last
    chosen = shares.argsort(stable=True)[: min(WORST, int((counts > 0).sum()))]
    columns = _columns(judgement.confusion, chosen)
    rows = [_row(judgement, label, columns) for label in chosen.tolist()]
    names = [judgement.classes[label] for label in columns]
    return Mistakes(names, rows, _pairs(answers, judgement), int((counts > 0).sum()), int((counts - hits).sum()))


def _columns(confusion: Tensor, chosen: Tensor) -> list[int]:
    """The chosen classes, then those they are most often taken for, as far as there is room."""
    taken_for = confusion[chosen].sum(0)
    own: list[int] = chosen.tolist()
    others = [i for i in taken_for.argsort(descending=True, stable=True).tolist() if taken_for[i] and i not in own]
    return [*own, *others][: max(COLUMNS, len(own))]


def _row(judgement: Judgement, label: int, columns: list[int]) -> Row:
    line = judgement.confusion[label]
    images, hits = int(line.sum()), int(line[label])
    cells = [(int(line[column]), column == label) for column in columns]
    others = images - sum(count for count, _ in cells)
    return Row(judgement.classes[label], images, hits / images, wilson(hits, images), cells, others)


def _pairs(answers: Answers, judgement: Judgement) -> list[Pair]:
    wrong = judgement.confusion.clone().fill_diagonal_(0)
    counts, places = wrong.flatten().topk(min(PAIRS, wrong.numel()))
    pairs = []
    for count, place in zip(counts.tolist(), places.tolist(), strict=True):
        if count:
            true, predicted = divmod(place, len(judgement.classes))
            pairs.append(_pair(answers, judgement, true, predicted))
    return pairs


def _pair(answers: Answers, judgement: Judgement, true: int, predicted: int) -> Pair:
    said = answers.predicted
    mistaken = ((answers.targets == true) & (said == predicted)).nonzero().flatten()
    right = ((answers.targets == predicted) & (said == predicted)).nonzero().flatten()
    pictures = [_picture(answers, i, true, predicted) for i in _surest(answers, mistaken, predicted)[:PICTURES]]
    example = next((_picture(answers, i, predicted, predicted) for i in _surest(answers, right, predicted)), None)
    counts = judgement.confusion[true]
    names = judgement.classes
    return Pair(names[true], names[predicted], int(counts[predicted]), int(counts.sum()), pictures, example)


def _surest(answers: Answers, numbers: Tensor, label: int) -> list[int]:
    """Images by the probability of a class, highest first."""
    sure = answers.logits[numbers].double().log_softmax(1)[:, label]
    order: list[int] = numbers[sure.argsort(descending=True, stable=True)].tolist()
    return order


def _picture(answers: Answers, i: int, true: int, predicted: int) -> Picture:
    path = answers.images.paths[i]
    name = "/".join(path.parts[-2:])
    return Picture(_data_uri(answers, i), name, answers.probability(i, predicted), answers.probability(i, true))


def _data_uri(answers: Answers, i: int) -> str:
    try:
        image = answers.images.load(i)
    except BrokenImage:
        return ""
    image.thumbnail((SIDE, SIDE))
    written = io.BytesIO()
    image.save(written, "JPEG", quality=82)
    return "data:image/jpeg;base64," + base64.b64encode(written.getvalue()).decode()
