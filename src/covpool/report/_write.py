"""Writing the report of a run."""

from pathlib import Path
from typing import Any

from covpool._errors import require
from covpool.data.sets import Splits
from covpool.engine.evaluation import LoadedCheckpoint
from covpool.io import replacing
from covpool.recipe import Recipe, resolve_stages, to_toml
from covpool.report import _facts as facts
from covpool.report._attribution import attribution_maps
from covpool.report._curves import learning_curves
from covpool.report._eigenplots import function_plots, spectrum_plots, summarize_spectra
from covpool.report._fit import FitSection, fit_section
from covpool.report._history import History
from covpool.report._mistakes import find_mistakes
from covpool.report._neighbours import find_neighbours
from covpool.report._open import OpenRun, open_run
from covpool.report._reliability import reliability_plot
from covpool.report._section import attempt, required

REPORT_FILE = "report.html"
TEMPLATE = Path(__file__).parent / "page.html.jinja"


def write_report(run: Path, *, splits: Splits | None = None, device: str = "auto") -> Path:
    """Write one self-contained page on a run: curves, accuracy, what decided, mistakes, spectra, settings.

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
    opened = open_run(run, splits=splits, device=device)
    recipe, history, checkpoint, spectra = opened.recipe, opened.history, opened.checkpoint, opened.spectra
    fit = attempt(lambda: fit_section(required(checkpoint).about)).value
    values = {
        "run": run,
        "fit": fit,
        "recipe": recipe,
        "history": history,
        "spectra": spectra,
        "maps": attempt(lambda: attribution_maps(opened)),
        "neighbours": attempt(lambda: find_neighbours(opened)),
        "spectrum_plots": attempt(lambda: spectrum_plots(required(spectra))),
        "function_plots": attempt(lambda: function_plots(required(spectra))),
        "summary": summarize_spectra(spectra.value) if spectra.value else None,
        **_log_values(recipe, history, fit),
        **_checkpoint_values(checkpoint.value, recipe),
        **_prediction_values(opened),
    }
    page = render_page(TEMPLATE, values)
    with replacing(run / REPORT_FILE) as partial:
        partial.write_text(page, encoding="utf-8", errors="replace")  # file names may be any bytes
    return run / REPORT_FILE


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


def _prediction_values(run: OpenRun) -> dict[str, Any]:
    """What the page shows of the predictions on the test set."""
    predictions, evaluation = run.predictions, run.evaluation
    return {
        "headline": facts.headline(run.history, evaluation.value),
        "evaluation": evaluation,
        "reliability": attempt(lambda: reliability_plot(required(predictions))),
        "metrics": [*facts.metrics(evaluation.value), *facts.choice(run.history)] if evaluation.value else [],
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
