"""What settings of a recipe must fulfil beyond their types, found before anything is loaded."""

from dataclasses import fields

from torch import nn

from covpool._check import check_positive_int
from covpool._errors import CovpoolError
from covpool.data import check_augment, check_data, check_not_negative
from covpool.models import Network
from covpool.pools import create_pool
from covpool.recipe._optimizer import make_optimizer
from covpool.recipe._pool_options import check_pool
from covpool.recipe._schema import Model, Optimizer, Recipe
from covpool.recipe._stages import parts


def check_recipe(recipe: Recipe) -> None:
    """Refuse a recipe that cannot work, naming the setting.

    >>> from covpool.recipe._schema import Model, Train
    >>> check_recipe(Recipe(model=Model(backbone="resnet18"), train=Train(epochs=0)))
    Traceback (most recent call last):
    covpool.CovpoolError: `train.epochs` must be a positive integer; got 0
    """
    for name in ("epochs", "batch_size", "accumulate", "log_every"):
        check_positive_int(f"train.{name}", getattr(recipe.train, name))
    for i, stage in enumerate(recipe.stages):
        check_positive_int(f"stages[{i}].epochs", stage.epochs)
        if stage.batch_size is not None:
            check_positive_int(f"stages[{i}].batch_size", stage.batch_size)
    check_positive_int("evaluate.every", recipe.evaluate.every)
    check_augment(recipe.augment)
    check_data(recipe.data)
    _check_room_for_crops(recipe)
    _check_network(recipe)
    check_pool(recipe)
    _check_numbers(recipe)
    for part in parts(recipe):
        _check_optimizer(part.recipe.optimizer)
        _check_batch_norms(part.recipe)


def _check_room_for_crops(recipe: Recipe) -> None:
    augment = recipe.augment
    if recipe.evaluate.crops == 10 and augment.resize and min(augment.resize) < augment.size:
        raise CovpoolError(
            f"`evaluate.crops` = 10 needs `augment.resize` at least as large as `augment.size` = {augment.size}; got "
            f"{list(augment.resize)}: set augment.resize=[{augment.size}] or larger"
        )


def _check_network(recipe: Recipe) -> None:
    model = recipe.model
    if model.name and model.backbone:
        raise CovpoolError(f"`model.name` = {model.name!r} and `model.backbone` = {model.backbone!r}: choose one")
    if not (model.name or model.backbone or recipe.init.weights):
        raise CovpoolError(
            "no network is named: set model.backbone (as in model.backbone=resnet50), model.name (one of `covpool list "
            "--models`), or init.weights to a covpool checkpoint"
        )
    if not model.backbone:
        _check_nothing_of_a_backbone(recipe)
    if recipe.init.pretrained and recipe.init.weights:
        raise CovpoolError("`init.pretrained` and `init.weights` both give weights: choose one")
    if recipe.init.pretrained and model.name:
        raise CovpoolError(
            "`init.pretrained` is for a `model.backbone` of timm or torchvision; give the weights of "
            f"{model.name} as a file, init.weights=..."
        )


def _check_nothing_of_a_backbone(recipe: Recipe) -> None:
    """One of the paper's networks, and that of a checkpoint, are built as they are."""
    for field in fields(Model):
        if field.name not in ("name", "backbone") and getattr(recipe.model, field.name) != getattr(Model(), field.name):
            raise CovpoolError(
                f"`model.{field.name}` is for a `model.backbone`, and {recipe.model.name or recipe.init.weights} is a "
                "whole network: leave it out, or name a model.backbone"
            )


def _check_optimizer(settings: Optimizer) -> None:
    """Refuse settings of which no optimizer can be made: one is, for a network of two numbers."""
    try:
        make_optimizer(Network(nn.Identity(), create_pool("avg", 1), nn.Linear(1, 1)), settings)
    except ValueError as error:
        if not isinstance(error.__cause__, (AssertionError, ImportError)):  # these tell of the machine, not the recipe
            raise CovpoolError(f"the table `optimizer` of the recipe makes no optimizer: {error}") from error


def _check_batch_norms(recipe: Recipe) -> None:
    """Refuse batches of one picture for norms that see one vector of each."""
    train, normalize = recipe.train, recipe.pool.options.get("normalize") or ()
    if train.freeze_norms or train.batch_size // train.accumulate != 1:
        return
    for setting, part, has_norm in (
        ("pool.normalize", "pool", "bn" in normalize),
        ("model.head_norm", "classifier", bool(recipe.model.head_layers) and recipe.model.head_norm),
    ):
        if has_norm and part not in train.freeze:
            raise CovpoolError(
                f"`{setting}` is a batch norm over the pictures of a batch, and needs two of them; got "
                f"`train.batch_size` = {train.batch_size} in {train.accumulate} part(s): use a larger one"
            )


def _check_numbers(recipe: Recipe) -> None:
    train, schedule, optimizer = recipe.train, recipe.schedule, recipe.optimizer
    zero_or_more = {
        "train.clip_norm": train.clip_norm,
        "train.save_every": train.save_every,
        "optimizer.lr": optimizer.lr,
        "optimizer.momentum": optimizer.momentum,
        "optimizer.weight_decay": optimizer.weight_decay,
        "optimizer.head_factor": optimizer.head_factor,
        "optimizer.head_weight_decay": optimizer.head_weight_decay or 0.0,
        "schedule.factor": schedule.factor,
        "schedule.end": schedule.end,
        "schedule.warmup_epochs": schedule.warmup_epochs,
        "evaluate.batch_size": recipe.evaluate.batch_size,
    }
    for name, value in zero_or_more.items():
        check_not_negative(name, value)
    for name, value in {"train.ema": train.ema, "train.label_smoothing": train.label_smoothing}.items():
        if not 0 <= value < 1:
            raise CovpoolError(f"`{name}` must be in [0, 1); got {value}")
    if schedule.name == "log" and schedule.end <= 0:
        raise CovpoolError(
            "`schedule.end` must be more than zero for the log-spaced schedule: the last learning rate as a "
            f"fraction of the first; got {schedule.end}"
        )
    milestones = list(schedule.milestones)
    if schedule.name == "step" and (milestones != sorted(set(milestones)) or min(milestones, default=0) < 0):
        raise CovpoolError(f"`schedule.milestones` must be increasing, none below zero; got {milestones}")
