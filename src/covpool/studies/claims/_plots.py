"""Plots of the sweeps: power, iterations, image size, images per class, eigenvalues."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from covpool._figures import COLORS, new_figure
from covpool.engine.evaluation import wilson
from covpool.studies.claims._arm import Arm
from covpool.studies.claims._claims import ALPHAS, IMAGES, ITERATIONS, PER_CLASS, SIZES
from covpool.studies.claims._records import ArmResult, Results

ALL_IMAGES = 0.0  # place of the arms with all training images, until the data set is known


@dataclass(frozen=True)
class Curve:
    """Arms along one setting: name of the curve, and a place on the axis for every arm."""

    name: str
    points: tuple[tuple[float, Arm], ...]


@dataclass(frozen=True)
class SweepPlot:
    """A plot of accuracy against one setting. `levels` are arms that are drawn as horizontal lines."""

    name: str
    axis: str
    curves: tuple[Curve, ...]
    levels: tuple[tuple[str, Arm], ...] = ()
    log: bool = False


def _curve(name: str, pools: Mapping[float, str]) -> Curve:
    return Curve(name, tuple((float(x), Arm(pool=pools[x])) for x in sorted(pools)))


def _per_class(pool: str, label: str, classifier: Any) -> Curve:
    points = [(float(count), Arm(pool=pool, per_class=count, classifier=classifier)) for count in PER_CLASS]
    return Curve(label, (*points, (ALL_IMAGES, Arm(pool=pool, classifier=classifier))))


SWEEPS = (
    SweepPlot(
        "alpha",
        "power alpha of MPN-COV",
        (_curve("MPN-COV", {**{alpha: f"mpn:alpha={alpha}" for alpha in ALPHAS}, 0.5: "mpn", 1.0: "cov"}),),
        (("average pooling", Arm(pool="avg")),),
    ),
    SweepPlot(
        "iterations",
        "iterations N of iSQRT-COV",
        (_curve("iSQRT-COV", {**{n: f"isqrt:iterations={n}" for n in ITERATIONS}, 5: "isqrt"}),),
        (("MPN-COV (exact root)", Arm(pool="mpn")), ("plain covariance", Arm(pool="cov"))),
    ),
    SweepPlot(
        "size",
        "image size, pixels",
        tuple(Curve(name, tuple((float(size), Arm(pool=pool, size=size)) for size in sorted((*SIZES, 224))))
              for pool, name in (("isqrt", "iSQRT-COV"), ("avg", "average pooling"))),
    ),
    SweepPlot(
        "per_class",
        "training images per class (the last point: all)",
        (_per_class("isqrt", "iSQRT-COV, logistic regression", "logistic"),
         _per_class("avg", "average pooling, logistic regression", "logistic"),
         _per_class("isqrt", "iSQRT-COV, class means", "prototypes"),
         _per_class("avg", "average pooling, class means", "prototypes")),
        log=True,
    ),
)  # fmt: skip


SPECTRUM = Arm(pool="mpn", classifier="spectrum").name


def plot_names(results: Results) -> dict[str, str]:
    """Return the plots that have records, by name, with what they show."""
    found = {
        sweep.name: f"Accuracy against {sweep.axis}"
        for sweep in SWEEPS
        if any(_known(curve, arms) for curve in sweep.curves for arms in results.values())
    }
    if any(SPECTRUM in arms for arms in results.values()):
        found["spectra"] = "Histograms of eigenvalues over a test set"
    return found


def plot_claims(results: Results, folder: Path) -> list[Path]:
    """Draw all plots that have records, a panel per data set, and return their files.

    Args:
        results: The records.
        folder: Folder of the plots; files in it are replaced.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return [*_sweeps(results, folder), *_spectra(results, folder)]


def _sweeps(results: Results, folder: Path) -> Iterator[Path]:
    for sweep in SWEEPS:
        shown = [data for data, arms in results.items() if any(_known(curve, arms) for curve in sweep.curves)]
        if not shown:
            continue
        figure = new_figure(5 * len(shown), 4)
        panels = figure.subplots(1, len(shown), squeeze=False)
        for axes, data in zip(panels[0], shown, strict=True):
            _draw(axes, sweep, results[data])
            axes.set_title(data)
        path = folder / f"claims_{sweep.name}.png"
        figure.savefig(path, dpi=100)
        yield path


def _known(curve: Curve, arms: dict[str, ArmResult]) -> list[tuple[float, list[ArmResult]]]:
    """The points of a curve with records, each with its result for every seed."""
    seeds = range(10)
    found = [
        (x, list({name: arms[name] for name in (arm.with_seed(seed).name for seed in seeds) if name in arms}.values()))
        for x, arm in curve.points
    ]
    points = [(x, own) for x, own in found if own]
    return points if len(points) > 1 else []


def _draw(axes: Any, sweep: SweepPlot, arms: dict[str, ArmResult]) -> None:
    most = IMAGES.get(next(iter(arms.values())).data, max(PER_CLASS))
    for curve, color in zip(sweep.curves, COLORS, strict=False):
        points = [(x or most, own) for x, own in _known(curve, arms)]
        tops = [100 * sum(one.top1 for one in own) / len(own) for _, own in points]
        bounds = [
            wilson(round(top / 100 * own[0].images), own[0].images) for top, (_, own) in zip(tops, points, strict=True)
        ]
        below = [top - 100 * low for top, (low, _) in zip(tops, bounds, strict=True)]
        above = [100 * high - top for top, (_, high) in zip(tops, bounds, strict=True)]
        style = "o--" if "means" in curve.name else "o-"
        axes.errorbar(
            [x for x, _ in points], tops, yerr=(below, above), fmt=style, color=color, capsize=2, label=curve.name
        )
    for (name, arm), style in zip(sweep.levels, ("--", ":"), strict=False):
        if arm.name in arms:
            axes.axhline(100 * arms[arm.name].top1, color="#666666", linestyle=style, label=name)
    if sweep.log:
        axes.set_xscale("log")
    axes.set_xlabel(sweep.axis)
    axes.set_ylabel("top-1 accuracy, %, with 95 % interval")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def _spectra(results: Results, folder: Path) -> Iterator[Path]:
    """Histograms of the eigenvalues over all test images of the first data set that has them."""
    data = next((data for data, arms in results.items() if SPECTRUM in arms), None)
    if data is None:
        return
    spectra = results[data][SPECTRUM].spectra
    figure = new_figure(10, 6)
    panels = figure.subplots(2, 2)
    low, high = spectra["span"]
    titles = ("covariance", "square root", "iSQRT, N = 5", "logarithm")
    for axes, title in zip(panels.flat, titles, strict=True):
        histogram = spectra[title]
        first, last = (histogram["from"], histogram["to"]) if title == "logarithm" else (low, high)
        _bars(axes, histogram["share"], first, last)
        zero = f"; zero: {100 * histogram['zero']:.0f} %" if "zero" in histogram else ""
        axes.set_title(f"{title}{zero}", fontsize=10)
        axes.set_xlabel("log of the eigenvalue + 0.001" if title == "logarithm" else "log10 of the eigenvalue")
        axes.set_ylabel("share of eigenvalues, %")
    figure.suptitle(f"Eigenvalues of the 256 x 256 covariance, all test images of {data}")
    path = folder / "claims_spectra.png"
    figure.savefig(path, dpi=100)
    yield path


def _bars(axes: Any, shares: Sequence[float], low: float, high: float) -> None:
    width = (high - low) / len(shares)
    places = [low + width * (i + 0.5) for i in range(len(shares))]
    axes.bar(places, [100 * share for share in shares], width, color=COLORS[0])
    axes.grid(alpha=0.3)
