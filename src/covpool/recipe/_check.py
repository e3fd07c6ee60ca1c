"""Checks of a recipe that need covpool's pools and torch's optimizers; the other checks are part of the schema."""

from covpool._errors import CovpoolError
from covpool.recipe._optimizer import check_optimizer
from covpool.recipe._pool_options import check_pool
from covpool.recipe._schema import Recipe
from covpool.recipe._stages import resolve_stages


def check_recipe(recipe: Recipe, *, here: bool = False) -> None:
    """Refuse a recipe that names no network, or whose pool or optimizer cannot be built.

    Args:
        recipe: Recipe to check.
        here: Whether to refuse also an optimizer that needs a package or a device that this machine does not have.

    >>> check_recipe(Recipe(model={"backbone": "resnet18"}, pool={"name": "isqrt", "iterations": 0}))
    Traceback (most recent call last):
    covpool.CovpoolError: the pool of the recipe cannot be built: `iterations` must be a positive integer; got 0
    """
    if not (recipe.model.name or recipe.model.backbone or recipe.init.weights):
        raise CovpoolError(
            "no network is named: set model.backbone (as in model.backbone=resnet50), model.name (one of `covpool list "
            "--models`), or init.weights to a covpool checkpoint"
        )
    check_pool(recipe)
    for stage in resolve_stages(recipe):
        check_optimizer(stage.recipe.optimizer, here=here)
