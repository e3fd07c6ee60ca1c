"""Opening a run: its recipe, log, checkpoint, data, predictions and spectra."""

from dataclasses import dataclass
from pathlib import Path

import torch

from covpool.data.sets import Splits, open_data
from covpool.diagnostics import Spectra
from covpool.engine.evaluation import Evaluation, LoadedCheckpoint, summarize_scores
from covpool.engine.training import find_checkpoint, read_run_recipe
from covpool.recipe import Recipe
from covpool.report._history import History
from covpool.report._predictions import Predictions, predictions_of_run, sample_spectra
from covpool.report._section import Section, attempt, required


@dataclass(frozen=True)
class OpenRun:
    """A run, finished or not, or a fit. What is missing says why.

    Attributes:
        folder: The folder of the run.
        recipe: Its recipe.
        history: Its log.
        device: Device that runs the network.
        checkpoint: The checkpoint that is the result of the run.
        data: The data of the run.
        predictions: The predictions of the checkpoint on the test set.
        evaluation: Their evaluation.
        spectra: The eigenvalues of some test images.
    """

    folder: Path
    recipe: Recipe
    history: History
    device: str
    checkpoint: Section[LoadedCheckpoint]
    data: Section[Splits]
    predictions: Section[Predictions]
    evaluation: Section[Evaluation]
    spectra: Section[Spectra]


def open_run(folder: Path, *, splits: Splits | None = None, device: str = "auto") -> OpenRun:
    """Open a run. The scores that the training saved are used; if there are none, they are computed again.

    Args:
        folder: The folder of a run or of a fit.
        splits: The data of the run; by default they are opened as the recipe says.
        device: Device that runs the network; "auto" is the GPU if there is one, unless the recipe asks for the CPU.
    """
    recipe, history = read_run_recipe(folder), History.read(folder)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() and recipe.devices.accelerator != "cpu" else "cpu"
    checkpoint = attempt(lambda: LoadedCheckpoint.read(find_checkpoint(folder), device))
    data = attempt(lambda: splits or open_data(recipe.data))
    predictions = attempt(lambda: predictions_of_run(folder, required(checkpoint), recipe, data, device))
    evaluation = attempt(lambda: _evaluate(required(predictions)))
    spectra = attempt(lambda: sample_spectra(required(checkpoint), recipe, required(data).test, device))
    return OpenRun(folder, recipe, history, device, checkpoint, data, predictions, evaluation, spectra)


def _evaluate(predictions: Predictions) -> Evaluation:
    return summarize_scores(predictions.logits, predictions.targets, predictions.classes)
