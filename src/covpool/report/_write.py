"""Writes the report of a run."""

from pathlib import Path
from typing import Any

import torch

from covpool._errors import CovpoolError
from covpool.data.sets import Splits, open_data
from covpool.engine.evaluation import Checkpoint, Judgement, judge
from covpool.io import read_checkpoint, replacing
from covpool.recipe import RECIPE_FILE, Recipe, read_recipe, resolve_stages, to_toml
from covpool.report import _facts as facts
from covpool.report._curves import learning_curves
from covpool.report._eigenplots import function_plots, spectrum_plots, summarize
from covpool.report._findings import Answers, answer, checkpoint_of, sample_spectra
from covpool.report._history import History
from covpool.report._mistakes import find_mistakes
from covpool.report._page import render_page
from covpool.report._part import Part, attempt, given

REPORT_FILE = "report.html"
TEMPLATE = Path(__file__).parent / "page.html.jinja"


def write_report(run: Path, *, splits: Splits | None = None, device: str = "auto") -> Path:
    """One self-contained page on a run: learning curves, accuracy, mistakes with pictures, spectra, settings, timings.

    The best checkpoint of the run judges the test images once more, under the recipe's protocol. What cannot be made
    (no checkpoint yet, no data at hand, unknown classes, no matplotlib) is replaced by a sentence that says why.

    Args:
        run: the folder of a run, finished or not.
        splits: its data, where they are open already; else they are opened as the recipe says.
        device: where the network runs; "auto" is the GPU where there is one, unless the recipe wants the CPU.

    Returns:
        The path of the page, RUN/report.html.
    """
    if not (run / RECIPE_FILE).is_file():
        raise CovpoolError(f"{run} is not the folder of a run: it has no {RECIPE_FILE}")
    recipe, history = read_recipe(run / RECIPE_FILE), History.read(run)
    chosen = device if device != "auto" else _device(recipe)
    checkpoint = attempt(lambda: Checkpoint.read(checkpoint_of(run), chosen))
    opened = attempt(lambda: splits or open_data(recipe.data))
    values = {"run": run, "recipe": recipe, "history": history, **_log_parts(recipe, history)}
    values |= _network_parts(recipe, history, checkpoint, opened, chosen)
    page = render_page(TEMPLATE, values)
    with replacing(run / REPORT_FILE) as partial:
        partial.write_text(page, encoding="utf-8", errors="replace")  # names of files may be any bytes
    return run / REPORT_FILE


def _device(recipe: Recipe) -> str:
    return "cuda" if torch.cuda.is_available() and recipe.devices.accelerator != "cpu" else "cpu"


def _log_parts(recipe: Recipe, history: History) -> dict[str, Any]:
    """What needs the recipe and the log alone."""
    starts = [part.start for part in resolve_stages(recipe)][1:]
    return {
        "progress": facts.progress(history, recipe),
        "curves": attempt(lambda: learning_curves(history, starts)),
        "timings": facts.timings(history),
        "changed": facts.changed_settings(recipe),
        "toml": to_toml(recipe),
    }


def _network_parts(
    recipe: Recipe, history: History, checkpoint: Part[Checkpoint], opened: Part[Splits], device: str
) -> dict[str, Any]:
    """What needs the trained network, and the test images."""
    answers = attempt(lambda: answer(given(checkpoint), recipe, given(opened), device))
    judgement = attempt(lambda: _judged(given(answers)))
    spectra = attempt(lambda: sample_spectra(given(checkpoint), recipe, given(opened).test, device))
    known = checkpoint.value
    saved = read_checkpoint(known.path) if known else None
    return {
        "headline": facts.headline(history, judgement.value),
        "checkpoint": known,
        "network": facts.about_network(known.network, recipe) if known else [],
        "versions": facts.versions(saved.versions if saved else {}),
        "epoch": saved.training.epoch if saved and saved.training else None,
        "judgement": judgement,
        "metrics": facts.metrics(judgement.value) if judgement.value else [],
        "mistakes": attempt(lambda: find_mistakes(given(answers), given(judgement))),
        "spectra": spectra,
        "spectrum_plots": attempt(lambda: spectrum_plots(given(spectra))),
        "function_plots": attempt(lambda: function_plots(given(spectra))),
        "summary": summarize(spectra.value) if spectra.value else None,
    }


def _judged(answers: Answers) -> Judgement:
    return judge(answers.logits, answers.targets, answers.images.classes)
