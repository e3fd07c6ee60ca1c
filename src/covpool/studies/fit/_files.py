"""The folder of a fit: its checkpoint and the test scores, which `covpool report` reads."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

import covpool
from covpool._errors import CovpoolError
from covpool.data.pipeline import data_split, preprocessing
from covpool.data.sets import Splits
from covpool.engine.evaluation import SCORES_FILE, Evaluation, Interval, SavedScores, save_scores
from covpool.engine.training import BEST_CHECKPOINT, check_writable
from covpool.io import EvaluationSettings, TrainingRecord
from covpool.models import Network
from covpool.recipe import RECIPE_FILE, Recipe
from covpool.studies.fit._choice import Trial
from covpool.studies.fit._compare import FittedPool
from covpool.studies.fit._settings import Fit


@dataclass(frozen=True, eq=False)
class FitResult:
    """The result of a fit.

    Attributes:
        network: The network, in evaluation mode.
        checkpoint: Its checkpoint.
        evaluation: Accuracy on the test set, with intervals, the confusion matrix and the accuracy of every class.
        table: The cross-validation of every candidate.
        chosen: The candidate that was chosen.
        notes: What was done, in sentences.
        seconds: Time of the fit.
    """

    network: Network
    checkpoint: Path
    evaluation: Evaluation
    table: tuple[Trial, ...]
    chosen: Trial
    notes: tuple[str, ...]
    seconds: float

    @property
    def accuracy(self) -> float:
        """Accuracy on the test set."""
        return self.evaluation.accuracy["top1"]

    @property
    def interval(self) -> Interval:
        """95 % interval of the accuracy (Wilson's)."""
        return self.evaluation.interval["top1"]


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds a run, or that cannot be written, before the work begins."""
    for name in (RECIPE_FILE, BEST_CHECKPOINT):
        if (folder / name).exists():
            raise CovpoolError(f"{folder} holds a run already ({name}): name another folder with --out, or remove it")
    check_writable(folder)


def save_fit(
    result: FitResult, settings: Fit, splits: Splits, fitted: FittedPool, scores: tuple[Tensor, Tensor]
) -> None:
    """Write the checkpoint and the test scores.

    Args:
        result: The network, and how it was found.
        settings: The settings of the fit.
        splits: The data.
        fitted: The chosen pool and its classifier.
        scores: Logits and targets of the test set.
    """
    recipe = equivalent_recipe(settings, fitted)
    data = data_split(settings.data, splits)
    metrics: dict[str, float | None] = dict(result.evaluation.accuracy)
    notes: dict[str, Any] = {
        "fit": settings.model_dump(mode="json"),
        "table": [trial.as_json() for trial in result.table],
        "chosen": result.chosen.as_json(),
        "seconds": result.seconds,
    }
    path = result.checkpoint
    path.parent.mkdir(parents=True, exist_ok=True)
    covpool.save(
        result.network,
        path,
        class_names=splits.train.classes,
        preprocessing=preprocessing(fitted.augment),
        evaluation=EvaluationSettings(),
        data=data,
        training=TrainingRecord(recipe=recipe.model_dump(mode="json"), metrics=metrics, notes=notes),
    )
    save_scores(path.with_name(SCORES_FILE), SavedScores(*scores), path, recipe, data.fingerprints["test"])


def equivalent_recipe(settings: Fit, fitted: FittedPool) -> Recipe:
    """The recipe that describes the data and the network of a fit; its settings of training are not used."""
    spec, level = fitted.spec, fitted.tap.level
    options = {key: "none" if value is None else value for key, value in spec.options.items()}
    return Recipe().changed(
        name=settings.folder.name,
        about="A linear classifier on frozen features, fitted by `covpool fit`.",
        seed=settings.seed,
        data=settings.data,
        augment=fitted.augment,
        model={
            "backbone": settings.backbone,
            "backbone_options": settings.backbone_options,
            "keep_last_stride": True,
            "levels": (level,) if level else (),
        },
        pool={"name": spec.name, "options": options},
        init={"weights": settings.weights, "pretrained": settings.uses_pretrained},
    )
