"""A training in stages, each with settings of its own."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from covpool.recipe._schema import Recipe, Stage


@dataclass(frozen=True)
class Part:
    """One stage as a recipe of its own, and the epoch it begins at."""

    recipe: Recipe
    start: int

    @property
    def end(self) -> int:
        return self.start + self.recipe.train.epochs


def parts(recipe: Recipe) -> Iterator[Part]:
    """The stages one after another; what a stage does not set stays as it was before.

    >>> from covpool.recipe._schema import Train
    >>> two = (Stage(epochs=3, freeze=("features",), lr=1.0), Stage(epochs=5, freeze=(), lr=0.1))
    >>> [(p.start, p.end, p.recipe.train.freeze, p.recipe.optimizer.lr) for p in parts(Recipe(stages=two))]
    [(0, 3, ('features',), 1.0), (3, 8, (), 0.1)]
    """
    start = 0
    for stage in recipe.stages or (Stage(epochs=recipe.train.epochs),):
        recipe = _apply(recipe, stage)
        part = Part(recipe, start)
        yield part
        start = part.end


def total_epochs(recipe: Recipe) -> int:
    return [part.end for part in parts(recipe)][-1]


def total_steps(recipe: Recipe, images: int) -> int:
    """Optimizer steps of all stages; the images of an epoch that make no whole batch are left out."""
    return sum((part.end - part.start) * (images // part.recipe.train.batch_size) for part in parts(recipe))


def _apply(recipe: Recipe, stage: Stage) -> Recipe:
    said = {key: value for key, value in vars(stage).items() if value is not None}
    ours = {key: said[key] for key in ("epochs", "batch_size", "freeze") if key in said}
    optimizers = {key: said[key] for key in ("lr", "head_factor", "weight_decay") if key in said}
    return replace(recipe, train=replace(recipe.train, **ours), optimizer=replace(recipe.optimizer, **optimizers))
