"""A training in stages, each with its own settings."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covpool.recipe._schema import Recipe, Stage


@dataclass(frozen=True)
class ResolvedStage:
    """One stage as a recipe of its own, and the epoch at which it begins."""

    recipe: "Recipe"
    start: int

    @property
    def end(self) -> int:
        """Number of the first epoch after the stage."""
        return self.start + self.recipe.train.epochs


def resolve_stages(recipe: "Recipe") -> Iterator[ResolvedStage]:
    """Yield the stages in order. Settings that a stage leaves out keep the value of the stage before.

    >>> from covpool.recipe import Recipe
    >>> stages = [{"epochs": 3, "freeze": ["features"], "lr": 1.0}, {"epochs": 5, "freeze": [], "lr": 0.1}]
    >>> for stage in resolve_stages(Recipe(stages=stages)):
    ...     print(stage.start, stage.end, stage.recipe.train.freeze, stage.recipe.optimizer.lr)
    0 3 ('features',) 1.0
    3 8 () 0.1
    """
    if not recipe.stages:
        yield ResolvedStage(recipe, 0)
    start = 0
    for stage in recipe.stages:
        recipe = _apply(recipe, stage)
        resolved = ResolvedStage(recipe, start)
        yield resolved
        start = resolved.end


def total_epochs(recipe: "Recipe") -> int:
    """Return the number of epochs of all stages."""
    return [stage.end for stage in resolve_stages(recipe)][-1]


def total_steps(recipe: "Recipe", images: int) -> int:
    """Return the number of optimizer steps of all stages."""
    return steps_until(recipe, images, total_epochs(recipe))


def steps_until(recipe: "Recipe", images: int, epoch: int) -> int:
    """Return the number of optimizer steps of the first epochs. The incomplete last batch of an epoch is left out."""
    return sum(
        max(0, min(epoch, stage.end) - stage.start) * (images // stage.recipe.train.batch_size)
        for stage in resolve_stages(recipe)
    )


def _apply(recipe: "Recipe", stage: "Stage") -> "Recipe":
    given = stage.model_dump(exclude_none=True)
    changes = {}
    for name in ("train", "optimizer"):
        table = getattr(recipe, name)
        changes[name] = table.model_copy(update={key: given[key] for key in given if key in type(table).model_fields})
    return recipe.model_copy(update=changes)
