"""The folder of a fit: its checkpoint and the test scores, which `covpool report` reads."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

import covpool
from covpool._errors import CovpoolError
from covpool.data import ResolvedAugment
from covpool.data.pipeline import data_split, preprocessing
from covpool.data.sets import Splits
from covpool.engine.evaluation import SCORES_FILE, Evaluation, SavedScores, save_scores
from covpool.engine.training import BEST_CHECKPOINT
from covpool.io import EvaluationSettings, TrainingRecord
from covpool.models import Network
from covpool.recipe import RECIPE_FILE, Recipe
from covpool.studies.fit._choice import Trial
from covpool.studies.fit._compare import FittedPool
from covpool.studies.fit._settings import Fit


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a fit found.

    Attributes:
        network: The fitted network.
        augment: How images become its inputs.
        fitted: The chosen pool and its classifier.
        trials: The cross-validation of every candidate.
        seconds: Time of the fit.
    """

    network: Network
    augment: ResolvedAugment
    fitted: FittedPool
    trials: tuple[Trial, ...]
    seconds: float


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds a run, or that cannot be written, before the work begins."""
    for name in (RECIPE_FILE, BEST_CHECKPOINT):
        if (folder / name).exists():
            raise CovpoolError(f"{folder} holds a run already ({name}): name another folder with --out, or remove it")
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise CovpoolError(f"{folder} cannot be created: {existing} is not a writable folder; name another --out")


def save_fit(
    settings: Fit, splits: Splits, outcome: Outcome, scores: tuple[Tensor, Tensor], evaluation: Evaluation
) -> Path:
    """Write the checkpoint and the test scores; returns the path of the checkpoint.

    Args:
        settings: The settings of the fit.
        splits: The data.
        outcome: The network and how it was found.
        scores: Logits and targets of the test set.
        evaluation: The accuracy on the test set.
    """
    recipe = equivalent_recipe(settings, outcome)
    data = data_split(settings.data, splits)
    notes: dict[str, Any] = {
        "fit": settings.model_dump(mode="json"),
        "table": [trial.as_json() for trial in outcome.trials],
        "chosen": outcome.fitted.trial.as_json(),
        "seconds": outcome.seconds,
    }
    path = settings.folder / BEST_CHECKPOINT
    path.parent.mkdir(parents=True, exist_ok=True)
    covpool.save(
        outcome.network,
        path,
        class_names=splits.train.classes,
        preprocessing=preprocessing(outcome.augment),
        evaluation=EvaluationSettings(),
        data=data,
        training=TrainingRecord(recipe=recipe.model_dump(mode="json"), metrics=dict(evaluation.accuracy), notes=notes),
    )
    save_scores(path.with_name(SCORES_FILE), SavedScores(*scores), path, recipe, data.fingerprints["test"])
    return path


def equivalent_recipe(settings: Fit, outcome: Outcome) -> Recipe:
    """The recipe that describes the data and the network of a fit; its settings of training are not used."""
    spec, level = outcome.fitted.spec, outcome.fitted.tap.level
    options = {key: "none" if value is None else value for key, value in spec.options.items()}
    return Recipe().changed(
        name=settings.folder.name,
        about="A linear classifier on frozen features, fitted by `covpool fit`.",
        seed=settings.seed,
        data=settings.data,
        augment=outcome.augment,
        model={
            "backbone": settings.backbone,
            "backbone_options": settings.backbone_options,
            "keep_last_stride": True,
            "levels": (level,) if level else (),
        },
        pool={"name": spec.name, "options": options},
        init={"weights": settings.weights, "pretrained": settings.uses_pretrained},
    )
