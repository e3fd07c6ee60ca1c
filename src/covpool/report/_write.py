"""Writing the report of a run."""

from pathlib import Path
from typing import Any

import torch

from covpool._errors import CovpoolError, require
from covpool.data.sets import Splits, open_data
from covpool.engine.evaluation import LoadedCheckpoint, summarize_scores
from covpool.engine.training import BEST_CHECKPOINT
from covpool.io import read_checkpoint, replacing
from covpool.recipe import RECIPE_FILE, Recipe, read_recipe, resolve_stages, to_toml
from covpool.report import _facts as facts
from covpool.report._attribution import attribution_maps
from covpool.report._curves import learning_curves
from covpool.report._eigenplots import function_plots, spectrum_plots, summarize_spectra
from covpool.report._fit import FitSection, fit_section
from covpool.report._history import History
from covpool.report._mistakes import find_mistakes
from covpool.report._predictions import Predictions, find_checkpoint, predictions_of_run, sample_spectra
from covpool.report._reliability import reliability_plot
from covpool.report._section import Section, attempt, required

REPORT_FILE = "report.html"
TEMPLATE = Path(__file__).parent / "page.html.jinja"


def write_report(run: Path, *, splits: Splits | None = None, device: str = "auto") -> Path:
    """Write one self-contained page on a run: curves, accuracy, mistakes with images, spectra, settings, timings.

    The accuracy is that of the checkpoint that is the result of the run: the best on the validation set, or the last
    one if there is no validation set. The scores that the training saved are used; if there are none, they are computed
    again. A section that cannot be made (no checkpoint yet, no data, unknown classes, no matplotlib) is replaced by a
    sentence that says why.

    Args:
        run: The folder of a run, finished or not, or of a fit.
        splits: The data of the run; by default they are opened as the recipe says.
        device: Device that runs the network; "auto" is the GPU if there is one, unless the recipe asks for the CPU.

    Returns:
        The path of the page, RUN/report.html.
    """
    recipe, history = read_run_recipe(run), History.read(run)
    device = _choose_device(recipe) if device == "auto" else device
    checkpoint = attempt(lambda: LoadedCheckpoint.read(find_checkpoint(run), device))
    data = attempt(lambda: splits or open_data(recipe.data))
    predictions = attempt(lambda: predictions_of_run(run, required(checkpoint), recipe, data, device))
    spectra = attempt(lambda: sample_spectra(required(checkpoint), recipe, required(data).test, device))
    fit = attempt(lambda: fit_section(required(checkpoint).about)).value
    values = {
        "run": run,
        "fit": fit,
        "recipe": recipe,
        "history": history,
        "spectra": spectra,
        "maps": attempt(lambda: attribution_maps(required(checkpoint), recipe, required(data).test, device)),
        "spectrum_plots": attempt(lambda: spectrum_plots(required(spectra))),
        "function_plots": attempt(lambda: function_plots(required(spectra))),
        "summary": summarize_spectra(spectra.value) if spectra.value else None,
        **_log_values(recipe, history, fit),
        **_checkpoint_values(checkpoint.value, recipe),
        **_prediction_values(predictions, history),
    }
    page = render_page(TEMPLATE, values)
    with replacing(run / REPORT_FILE) as partial:
        partial.write_text(page, encoding="utf-8", errors="replace")  # file names may be any bytes
    return run / REPORT_FILE


def _choose_device(recipe: Recipe) -> str:
    return "cuda" if torch.cuda.is_available() and recipe.devices.accelerator != "cpu" else "cpu"


def read_run_recipe(run: Path) -> Recipe:
    """The recipe of a training, or the one that describes the data and the network of a fit."""
    if (run / RECIPE_FILE).is_file():
        return read_recipe(run / RECIPE_FILE)
    training = read_checkpoint(run / BEST_CHECKPOINT).training if (run / BEST_CHECKPOINT).is_file() else None
    if training is None or training.recipe is None:
        raise CovpoolError(f"{run} is not the folder of a run: it has no {RECIPE_FILE}")
    settings: dict[str, Any] = training.recipe
    return Recipe(**settings)


def _log_values(recipe: Recipe, history: History, fit: FitSection | None) -> dict[str, Any]:
    """What the page shows of the recipe and the log."""
    starts = [stage.start for stage in resolve_stages(recipe)][1:]
    is_validated = any("validation_top1" in epoch for epoch in history.epochs)
    return {
        "validated": is_validated,
        "evaluated": "validation" if is_validated else "test",
        "progress": facts.progress(history, recipe) if fit is None else facts.fitted(fit.seconds),
        "curves": attempt(lambda: learning_curves(history, starts)),
        "timings": facts.timings(history),
        "changed": facts.changed_settings(recipe),
        "toml": to_toml(recipe),
    }


def _checkpoint_values(checkpoint: LoadedCheckpoint | None, recipe: Recipe) -> dict[str, Any]:
    """What the page shows of the checkpoint."""
    if checkpoint is None:
        return {"checkpoint": None, "network": [], "versions": facts.versions({}), "epoch": None}
    about = checkpoint.about
    return {
        "checkpoint": checkpoint,
        "network": facts.about_network(checkpoint.network, recipe),
        "versions": facts.versions(about.versions),
        "epoch": about.training.epoch if about.training else None,
    }


def _prediction_values(predictions: Section[Predictions], history: History) -> dict[str, Any]:
    """What the page shows of the predictions on the test set."""

    def evaluate(found: Predictions) -> Any:
        return summarize_scores(found.logits, found.targets, found.classes)

    evaluation = attempt(lambda: evaluate(required(predictions)))
    return {
        "headline": facts.headline(history, evaluation.value),
        "evaluation": evaluation,
        "reliability": attempt(lambda: reliability_plot(required(predictions))),
        "metrics": [*facts.metrics(evaluation.value), *facts.choice(history)] if evaluation.value else [],
        "mistakes": attempt(lambda: find_mistakes(required(predictions), required(evaluation))),
    }


def render_page(template: Path, values: dict[str, Any]) -> str:
    """Render a Jinja template. It may include files from its own folder and from this package, such as style.css.

    Args:
        template: Path of the template.
        values: Values of the names in the template; a name without a value is an error.
    """
    jinja2 = require("jinja2", "train")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([template.parent, Path(__file__).parent]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": facts.percent, "duration": facts.duration, "number": facts.number}
    return environment.get_template(template.name).render(values)
