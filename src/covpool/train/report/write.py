"""Writes the report of a run."""

from pathlib import Path
from typing import Any

import torch

from covpool._check import require
from covpool.data.sets import Splits, open_data
from covpool.io.atomic import replacing
from covpool.io.checkpoint import read_metadata
from covpool.train.evaluate import Checkpoint
from covpool.train.judge import Judgement, judge
from covpool.train.parse import RECIPE, read_recipe, to_toml
from covpool.train.recipe import Recipe
from covpool.train.report import facts
from covpool.train.report.curves import learning_curves
from covpool.train.report.eigenplots import function_plots, spectrum_plots, summarize
from covpool.train.report.findings import Answers, answer, checkpoint_of, sample_spectra
from covpool.train.report.history import History
from covpool.train.report.mistakes import find_mistakes
from covpool.train.report.part import Part, attempt, given
from covpool.train.stages import parts

FILE = "report.html"
TEMPLATE = "page.html.jinja"


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
    if not (run / RECIPE).is_file():
        raise ValueError(f"{run} is not the folder of a run: it has no {RECIPE}")
    recipe, history = read_recipe(run / RECIPE), History.read(run)
    chosen = device if device != "auto" else _device(recipe)
    checkpoint = attempt(lambda: Checkpoint.read(checkpoint_of(run), chosen))
    opened = attempt(lambda: splits or open_data(recipe.data))
    page = _render(
        run=run,
        recipe=recipe,
        history=history,
        **_log_parts(recipe, history),
        **_network_parts(recipe, history, checkpoint, opened, chosen),
    )
    with replacing(run / FILE) as partial:
        partial.write_text(page, encoding="utf-8", errors="replace")  # names of files may be any bytes
    return run / FILE


def _device(recipe: Recipe) -> str:
    return "cuda" if torch.cuda.is_available() and recipe.devices.accelerator != "cpu" else "cpu"


def _log_parts(recipe: Recipe, history: History) -> dict[str, Any]:
    """What needs the recipe and the log alone."""
    starts = [part.start for part in parts(recipe)][1:]
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
    return {
        "headline": facts.headline(history, judgement.value),
        "checkpoint": known,
        "network": facts.about_network(known.network, recipe) if known else [],
        "versions": facts.versions(read_metadata(known.path)["versions"] if known else {}),
        "epoch": (read_metadata(known.path)["recipe_extra"] or {}).get("epoch") if known else None,
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


def _render(**values: Any) -> str:
    jinja2 = require("jinja2", "train")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": facts.percent, "duration": facts.duration, "number": facts.number}
    page: str = environment.get_template(TEMPLATE).render(values)
    return page
