"""A page that compares two runs on the same test images."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from covpool._errors import CovpoolError
from covpool.data.sets import Splits
from covpool.engine.evaluation import Interval, bootstrap
from covpool.io import replacing
from covpool.recipe import flat_settings
from covpool.report import _facts as facts
from covpool.report._drawing import COLORS, draw
from covpool.report._mistakes import ExampleImage, example_image
from covpool.report._open import OpenRun, open_run
from covpool.report._predictions import Predictions
from covpool.report._section import attempt, required
from covpool.report._write import render_page

COMPARISON_FILE = "comparison.html"
TEMPLATE = Path(__file__).parent / "comparison.html.jinja"
CLASSES, IMAGES = 6, 4  # classes, and images, on which each of the two is better
CURVES = {
    "train_loss": ("Loss on the training set", 1),
    "validation_top1": ("Accuracy on the validation set, %", 100),
    "top1": ("Accuracy on the test set, %", 100),
}
SKIPPED = ("about", "data.root", "name")  # settings that do not change a result


@dataclass(frozen=True)
class ClassDifference:
    """A class, the number of its images, and the accuracy of both runs on them."""

    name: str
    images: int
    first: float
    second: float


@dataclass(frozen=True)
class PairedResult:
    """The predictions of two runs on the same images.

    Attributes:
        images: Number of images with a known class.
        first: Accuracy of the first run.
        second: Accuracy of the second run.
        interval: Paired 95 % interval of the second minus the first.
        only_first: Number of images that only the first classifies correctly.
        only_second: Number of images that only the second classifies correctly.
        classes: The classes with the largest differences, the largest gain first.
        images_of_first: Examples of images that only the first classifies correctly, as the second predicts them.
        images_of_second: Examples of images that only the second classifies correctly, as the first predicts them.
    """

    images: int
    first: float
    second: float
    interval: Interval
    only_first: int
    only_second: int
    classes: list[ClassDifference]
    images_of_first: list[tuple[ExampleImage, str, str]]
    images_of_second: list[tuple[ExampleImage, str, str]]

    @property
    def in_words(self) -> str:
        """What the interval says."""
        low, high = self.interval
        if low <= 0 <= high:
            return "The interval contains zero, so these images do not rank the two runs."
        return f"The {'second' if low > 0 else 'first'} run is better on images of this kind."


def write_comparison(
    first: Path, second: Path, *, open_splits: Callable[[Path], Splits] | None = None, device: str = "auto"
) -> Path:
    """Write one self-contained page that compares two runs: accuracy, curves, classes, images, spectra, settings.

    The difference of the accuracies has a paired 95 % interval over the test images, which must be the same.

    Args:
        first: The folder of a run or of a fit.
        second: The folder of the run that is compared with it.
        open_splits: Opens the data of a run; by default they are opened as its recipe says.
        device: Device that runs the networks, as for `write_report`.

    Returns:
        The path of the page, SECOND/comparison.html.
    """
    runs = [
        open_run(run, splits=open_splits(run) if open_splits is not None else None, device=device)
        for run in (first, second)
    ]
    names = _names(first, second)
    _check_same_images(runs)
    result = compare_predictions(*(required(run.predictions) for run in runs))
    values = {
        "names": names,
        "runs": runs,
        "result": result,
        "metrics": _side_by_side([facts.metrics(required(run.evaluation)) for run in runs]),
        "networks": _side_by_side([facts.about_network(required(run.checkpoint).network, run.recipe) for run in runs]),
        "curves": attempt(lambda: _curves(names, runs)),
        "spectra": attempt(lambda: _spectra(names, runs)),
        "settings": _different_settings(*runs),
    }
    page = render_page(TEMPLATE, values)
    with replacing(second / COMPARISON_FILE) as partial:
        partial.write_text(page, encoding="utf-8", errors="replace")
    return second / COMPARISON_FILE


def _check_same_images(runs: list[OpenRun]) -> None:
    """Refuse runs whose checkpoints name different test images: equal numbers per class do not make them the same."""
    splits = [required(run.checkpoint).about.data for run in runs]
    if len({split.fingerprints["test"] for split in splits if split and "test" in split.fingerprints}) > 1:
        raise CovpoolError(
            "the two runs have other test images, so that their predictions cannot be compared: train both on the "
            "same split"
        )


def compare_predictions(first: Predictions, second: Predictions) -> PairedResult:
    """Compare two sets of predictions image by image; other images or classes are refused."""
    if first.classes != second.classes or not torch.equal(first.targets, second.targets):
        raise CovpoolError(
            "the two runs have other test images or classes, so that their predictions cannot be compared: "
            f"{len(first.targets):,} images of {len(first.classes)} classes, and {len(second.targets):,} of "
            f"{len(second.classes)}"
        )
    known = first.targets >= 0
    right = [(one.predicted == one.targets)[known] for one in (first, second)]
    only_first, only_second = right[0] & ~right[1], right[1] & ~right[0]
    numbers = known.nonzero().flatten()
    return PairedResult(
        images=len(numbers),
        first=float(right[0].double().mean()),
        second=float(right[1].double().mean()),
        interval=bootstrap((right[1].double() - right[0].double())[None]),
        only_first=int(only_first.sum()),
        only_second=int(only_second.sum()),
        classes=_by_class(first, right),
        images_of_first=_examples(second, numbers[only_first]),
        images_of_second=_examples(first, numbers[only_second]),
    )


def _by_class(predictions: Predictions, right: list[Tensor]) -> list[ClassDifference]:
    """The classes with the largest gains and losses."""
    targets = predictions.targets[predictions.targets >= 0]
    count = len(predictions.classes)
    images = torch.bincount(targets, minlength=count)
    hits = [torch.bincount(targets, weights=one.double(), minlength=count) for one in right]
    found = [
        ClassDifference(name, n, float(a / n), float(b / n))
        for name, n, a, b in zip(predictions.classes, images.tolist(), *hits, strict=True)
        if n and a != b
    ]
    found.sort(key=lambda one: one.first - one.second)
    return found if len(found) <= 2 * CLASSES else [*found[:CLASSES], *found[-CLASSES:]]


def _examples(predictions: Predictions, numbers: Tensor) -> list[tuple[ExampleImage, str, str]]:
    """The most confident mistakes among images, each with its true and its predicted class."""
    confidence = predictions.logits[numbers].double().softmax(1).amax(1)
    found = []
    for i in numbers[confidence.argsort(descending=True, stable=True)][:IMAGES].tolist():
        true, predicted = int(predictions.targets[i]), int(predictions.predicted[i])
        example = example_image(predictions, i, true, predicted)
        found.append((example, predictions.classes[true], predictions.classes[predicted]))
    return found


def _names(first: Path, second: Path) -> tuple[str, str]:
    """Names that tell two runs apart: those of their folders, or their paths if these are equal."""
    a, b = first.resolve(), second.resolve()
    if a == b:
        raise CovpoolError(f"name two different runs; got {first} twice")
    return (a.name, b.name) if a.name != b.name else (str(first), str(second))


def _side_by_side(columns: list[list[facts.Fact]]) -> list[tuple[str, str, str]]:
    """The facts of two runs by name; a fact of one run alone leaves the other empty."""
    first, second = ({fact.name: fact for fact in facts_of_run} for facts_of_run in columns)
    empty = facts.Fact("", "")
    return [(name, first.get(name, empty).value, second.get(name, empty).value) for name in {**first, **second}]


def _curves(names: tuple[str, str], runs: list[OpenRun]) -> list[str]:
    """Plot what both logs have, over epochs."""

    def plot(key: str, title: str, factor: int) -> str:
        def paint(axes: Any) -> None:
            for color, marker, name, run in zip(COLORS, "os", names, runs, strict=False):
                series = run.history.of_epochs(key, name)
                axes.plot(
                    series.x, [factor * y for y in series.y], color=color, marker=marker, markersize=3.5, label=name
                )
            axes.set_title(title)
            axes.set_xlabel("epoch")
            axes.locator_params(axis="x", integer=True, nbins=8)
            axes.legend()

        return draw(f"both {key}", paint, about=title)

    shared = [key for key in CURVES if all(run.history.of_epochs(key, "").y for run in runs)]
    return [plot(key, *CURVES[key]) for key in shared]


def _spectra(names: tuple[str, str], runs: list[OpenRun]) -> list[str]:
    """Plot the eigenvalues by rank of both runs, before and after their pools."""
    found = [required(run.spectra) for run in runs]

    def plot(what: str) -> str:
        def paint(axes: Any) -> None:
            for color, line, name, spectra in zip(COLORS, ("-", "--"), names, found, strict=False):
                values = getattr(spectra, what)
                if values is not None:
                    middle = (values / values[:, :1].clamp(min=1e-30)).median(0).values
                    shown = (middle > 1e-7).nonzero().flatten()
                    axes.plot((shown + 1).tolist(), middle[shown].tolist(), color=color, linestyle=line, label=name)
            axes.set_yscale("log")
            axes.set_title(f"Eigenvalues over the largest, {what} the pool")
            axes.set_xlabel("rank")
            axes.legend()

        return draw(f"both {what}", paint, about=f"Eigenvalues by rank, {what} the pool")

    return [plot(what) for what in ("before", "after") if any(getattr(one, what) is not None for one in found)]


def _different_settings(first: OpenRun, second: OpenRun) -> list[tuple[str, str, str]]:
    """The settings in which two recipes differ, by their names on the command line."""
    one, two = (dict(flat_settings(run.recipe)) for run in (first, second))

    def in_words(recipe: dict[str, Any], name: str) -> str:
        return facts.setting_in_words(recipe[name]) if name in recipe else ""

    return [
        (name, in_words(one, name), in_words(two, name))
        for name in {**one, **two}
        if name not in SKIPPED and one.get(name) != two.get(name)
    ]
