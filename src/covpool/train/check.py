"""What settings of a recipe must fulfil beyond their types, found before anything is loaded."""

import math

from covpool._check import check_positive_int
from covpool.train.pool_options import check_pool
from covpool.train.recipe import Recipe


def check_recipe(recipe: Recipe) -> None:
    """Refuse a recipe that cannot work, naming the setting.

    >>> from covpool.train.recipe import Model, Train
    >>> check_recipe(Recipe(model=Model(backbone="resnet18"), train=Train(epochs=0)))
    Traceback (most recent call last):
    ValueError: `train.epochs` must be a positive integer; got 0
    """
    for name in ("epochs", "batch_size", "accumulate", "log_every"):
        check_positive_int(f"train.{name}", getattr(recipe.train, name))
    for i, stage in enumerate(recipe.stages):
        check_positive_int(f"stages[{i}].epochs", stage.epochs)
        if stage.batch_size is not None:
            check_positive_int(f"stages[{i}].batch_size", stage.batch_size)
    check_positive_int("evaluate.every", recipe.evaluate.every)
    check_positive_int("augment.size", recipe.augment.size)
    _check_network(recipe)
    check_pool(recipe)
    _check_numbers(recipe)


def _check_network(recipe: Recipe) -> None:
    model = recipe.model
    if model.name and model.backbone:
        raise ValueError(f"`model.name` = {model.name!r} and `model.backbone` = {model.backbone!r}: choose one")
    if not (model.name or model.backbone or recipe.init.weights):
        raise ValueError(
            "no network is named: set model.backbone (as in model.backbone=resnet50), model.name (one of `covpool list "
            "--models`), or init.weights to a covpool checkpoint"
        )
    if recipe.init.pretrained and recipe.init.weights:
        raise ValueError("`init.pretrained` and `init.weights` both give weights: choose one")
    if recipe.init.pretrained and model.name:
        raise ValueError(
            "`init.pretrained` is for a `model.backbone` of timm or torchvision; give the weights of "
            f"{model.name} as a file, init.weights=..."
        )


def _check_numbers(recipe: Recipe) -> None:
    train, schedule, optimizer = recipe.train, recipe.schedule, recipe.optimizer
    zero_or_more = {
        "train.clip_norm": train.clip_norm,
        "train.save_every": train.save_every,
        "optimizer.lr": optimizer.lr,
        "optimizer.weight_decay": optimizer.weight_decay,
        "optimizer.head_factor": optimizer.head_factor,
        "optimizer.head_weight_decay": optimizer.head_weight_decay or 0.0,
        "schedule.end": schedule.end,
        "schedule.warmup_epochs": schedule.warmup_epochs,
        "augment.mixup": recipe.augment.mixup,
        "augment.cutmix": recipe.augment.cutmix,
        "evaluate.batch_size": recipe.evaluate.batch_size,
        "data.workers": recipe.data.workers,
    }
    for name, value in zero_or_more.items():
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"`{name}` must be zero or more; got {value}")
    for name, value in {"train.ema": train.ema, "train.label_smoothing": train.label_smoothing}.items():
        if not 0 <= value < 1:
            raise ValueError(f"`{name}` must be in [0, 1); got {value}")
    if schedule.name == "log" and schedule.end <= 0:
        raise ValueError(
            "`schedule.end` must be more than zero for the log-spaced schedule: the last learning rate as a "
            f"fraction of the first; got {schedule.end}"
        )
    if schedule.name == "step" and list(schedule.milestones) != sorted(set(schedule.milestones)):
        raise ValueError(f"`schedule.milestones` must be increasing; got {list(schedule.milestones)}")
