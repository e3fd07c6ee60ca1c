"""Plots of the spectra before and after normalization, and of the normalization functions."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from covpool._errors import CovpoolError
from covpool.diagnostics import Spectra, log_histogram, logarithm, newton_schulz, power
from covpool.report._drawing import COLORS, TEXT, draw

BINS = 48
DOTS = 400  # number of measured eigenvalues drawn
DECADES = 6  # functions are drawn over this many decades below the largest eigenvalue


@dataclass(frozen=True)
class SpectraSummary:
    """The share of zero eigenvalues, and the ratio of the largest to the smallest positive one."""

    zero: float
    spread_before: float | None
    spread_after: float | None


def spectrum_plots(spectra: Spectra) -> list[str]:
    """Plot the histograms of the eigenvalues, and the eigenvalues by rank."""
    plots = [draw("histogram", lambda axes: _histograms(axes, spectra), about="Histogram of eigenvalues")]
    if spectra.after is not None and _has_negative(spectra.after):  # a logarithmic scale cannot show a matrix logarithm
        after = spectra.after
        plots.append(
            draw("after", lambda axes: _linear_histogram(axes, after), about="Histogram of normalized eigenvalues")
        )
    else:
        plots.append(draw("decay", lambda axes: _decay(axes, spectra), about="Eigenvalues by rank"))
    return plots


def function_plots(spectra: Spectra) -> list[str]:
    """Plot normalization functions over the range of the measured eigenvalues."""
    largest = spectra.before[:, 0]
    if not bool((largest > 0).any()):
        raise CovpoolError("all features of the sample are constant: their covariance is zero")
    return [
        draw("relative", lambda axes: _relative(axes, spectra), about="Normalization functions on logarithmic axes"),
        draw("absolute", lambda axes: _absolute(axes, spectra), about="Values of normalization functions"),
    ]


def summarize_spectra(spectra: Spectra) -> SpectraSummary:
    """Summarize spectra for the text of the page."""
    zero = float((spectra.before == 0).double().mean())
    return SpectraSummary(zero, _spread(spectra.before), None if spectra.after is None else _spread(spectra.after))


def _spread(eigenvalues: Tensor) -> float | None:
    """The median ratio of the largest to the smallest positive eigenvalue; None for logarithms and zeros."""
    if _has_negative(eigenvalues):
        return None
    least = torch.where(eigenvalues > 0, eigenvalues, torch.inf).amin(-1)
    ratios = (eigenvalues[:, 0] / least)[eigenvalues[:, 0] > 0]
    return float(ratios.median()) if len(ratios) else None


def _has_negative(eigenvalues: Tensor) -> bool:
    return bool((eigenvalues < 0).any())


def _histograms(axes: Any, spectra: Spectra) -> None:
    shown = {"before": spectra.before}
    if spectra.after is not None and not _has_negative(spectra.after):
        shown["after"] = spectra.after
    positive = torch.cat([values[values > 0] for values in shown.values()])
    span = (float(positive.log10().min()), float(positive.log10().max())) if len(positive) else None
    for color, (label, values) in zip(COLORS, shown.items(), strict=False):
        found = log_histogram(values, bins=BINS, span=span)
        style = {"alpha": 0.45, "color": color, "label": label}
        axes.stairs((100 * found.share).tolist(), (10**found.edges).tolist(), fill=True, **style)
        axes.stairs((100 * found.share).tolist(), (10**found.edges).tolist(), color=color, linewidth=1.2)
    axes.set_xscale("log")
    axes.set_title("Histogram of eigenvalues, % of all")
    axes.set_xlabel("eigenvalue")
    if len(shown) > 1:
        axes.set_ylim(top=1.35 * axes.get_ylim()[1])
        axes.legend(loc="upper left", ncols=2)


def _linear_histogram(axes: Any, after: Tensor) -> None:
    axes.hist(after.flatten().tolist(), bins=BINS, color=COLORS[1], alpha=0.6)
    axes.set_title("After normalization, count")
    axes.set_xlabel("eigenvalue")


def _decay(axes: Any, spectra: Spectra) -> None:
    for color, label, values in zip(COLORS, ("before", "after"), (spectra.before, spectra.after), strict=False):
        if values is None:
            continue
        largest = values[:, :1]
        relative = (values / torch.where(largest == 0, 1, largest))[largest[:, 0] > 0]
        if not len(relative):
            continue
        low, middle, high = relative.quantile(torch.tensor([0.1, 0.5, 0.9], dtype=relative.dtype), dim=0)
        seen = middle > 10.0**-DECADES / 10
        ranks = (seen.nonzero().flatten() + 1).tolist()
        axes.plot(ranks, middle[seen].tolist(), color=color, label=label)
        axes.fill_between(ranks, low[seen].tolist(), high[seen].tolist(), color=color, alpha=0.2, linewidth=0)
    axes.set_yscale("log")
    axes.set_title("Eigenvalues over the largest")
    axes.set_xlabel("rank")
    axes.locator_params(axis="x", integer=True)
    if axes.get_lines():
        axes.legend()


def _typical(spectra: Spectra) -> tuple[Tensor, Tensor, Tensor]:
    """Points up to the median of the largest eigenvalues, that median, and the median trace."""
    largest = spectra.before[:, 0].median()
    points = largest * torch.logspace(-DECADES, 0, 200, dtype=torch.float64)
    return points, largest, spectra.before.sum(-1).median()


def _relative(axes: Any, spectra: Spectra) -> None:
    points, largest, trace = _typical(spectra)
    curves = {
        "plain covariance": (points, "--"),
        "square root": (power(points), "-"),
        "iSQRT, N = 3": (newton_schulz(points, iterations=3, t=trace), ":"),
        "iSQRT, N = 5": (newton_schulz(points, iterations=5, t=trace), "-."),
    }
    if spectra.after is not None and not _has_negative(spectra.after):
        before, after = spectra.before, spectra.after
        seen = (before > 10.0**-DECADES * before[:, :1]) & (after > 0)
        x, y = (before / before[:, :1])[seen], (after / after[:, :1])[seen]
        every = max(1, -(-len(x) // DOTS))
        style = {"color": COLORS[1], "alpha": 0.45, "linestyle": "", "marker": "o", "markersize": 3}
        axes.plot(x[::every].tolist(), y[::every].tolist(), **style, label="this network (measured)")
    for label, (values, line) in curves.items():
        style = {"color": COLORS[0] if line == "-" else TEXT, "linestyle": line, "linewidth": 1.4}
        axes.plot((points / largest).tolist(), (values / values[-1]).tolist(), **style, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title("Relative to the largest")
    axes.set_xlabel("eigenvalue / largest eigenvalue")
    axes.legend()


def _absolute(axes: Any, spectra: Spectra) -> None:
    points, largest, trace = _typical(spectra)
    typical = spectra.before[(spectra.before[:, 0] - largest).abs().argmin()]
    fro = torch.linalg.vector_norm(power(typical))
    curves = {
        "plain covariance": (points, TEXT, "--"),
        "square root": (power(points), COLORS[0], "-"),
        "iSQRT, N = 5": (newton_schulz(points, t=trace), COLORS[0], "-."),
        "logarithm": (logarithm(points), COLORS[1], "-"),
        "square root, M-l2": (power(points, normalization="spectral"), COLORS[2], "-"),
        "square root, M-Fro": (power(points) / fro, COLORS[3], "--"),
    }
    for label, (values, color, line) in curves.items():
        axes.plot(points.tolist(), values.tolist(), color=color, linestyle=line, linewidth=1.5, label=label)
    axes.set_ylim(float(logarithm(points).min()) - 0.3, 2.2 * float(largest.sqrt().clamp(min=1)))
    axes.set_xscale("log")
    axes.set_title("Values")
    axes.set_xlabel("eigenvalue")
    axes.legend(loc="upper left", ncols=2, fontsize=8.5)
