"""An arm: one training that a claim compares with others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from covpool.recipe import Recipe, read_recipe


@dataclass(frozen=True, kw_only=True)
class TrainedArm:
    """A training by a recipe, with everything but the data set that its accuracy depends on.

    Attributes:
        recipe: Name of the recipe.
        settings: Settings that replace those of the recipe, as on the command line.
        seed: Seed of the training.
        fused_with: Another training, to whose log-probabilities those of this one are added.
    """

    recipe: str
    settings: tuple[str, ...] = ()
    seed: int = 1
    fused_with: "TrainedArm | None" = None

    @property
    def name(self) -> str:
        """Recipe and settings as typed for `covpool train`. The name identifies the arm in the records.

        >>> TrainedArm(recipe="finetune", settings=("pool.name=cov",)).name
        'finetune pool.name=cov seed=1'
        """
        own = " ".join([self.recipe, *self.settings, f"seed={self.seed}"])
        return own if self.fused_with is None else f"{own} + {self.fused_with.name}"

    @property
    def label(self) -> str:
        """The name without seeds."""
        own = " ".join([self.recipe, *self.settings])
        return own if self.fused_with is None else f"{own} + {self.fused_with.label}"

    @property
    def resolved(self) -> Recipe:
        """The recipe with the settings.

        >>> TrainedArm(recipe="finetune").resolved.augment.size
        320
        """
        return _read(self.recipe, self.settings)

    @property
    def minutes(self) -> float:
        """The minutes of an H200 that the training takes if four run at once. Fused trainings take none of their own.

        >>> TrainedArm(recipe="finetune", settings=("augment.size=224",)).minutes
        0.4
        """
        if self.fused_with is not None:
            return 0.0
        recipe = self.resolved
        assert recipe.augment.size is not None
        return MINUTES[recipe.model.backbone, recipe.augment.size] * recipe.train.epochs / EPOCHS

    def with_seed(self, seed: int) -> "TrainedArm":
        """The same training, or the same two trainings, with another seed."""
        other = self.fused_with
        return replace(self, seed=seed, fused_with=None if other is None else other.with_seed(seed))

    @property
    def alone(self) -> "TrainedArm":
        """The training without the one that it is fused with."""
        return replace(self, fused_with=None)


EPOCHS = 25
MINUTES = {  # of an H200 per training of 25 epochs if four run at once, by backbone and image size
    ("torchvision/mobilenet_v2", 224): 0.4,
    ("torchvision/mobilenet_v2", 320): 0.8,
    ("covpool/resnet18_small_stem", 64): 1.0,  # estimates, as the next two
    ("covpool/resnet34_small_stem", 64): 1.7,
    ("covpool/resnet50_small_stem", 64): 2.5,
}


def minutes(arms: Sequence[TrainedArm]) -> float:
    """Return the minutes of an H200 that the trainings take."""
    return sum(arm.minutes for arm in arms)


@cache
def _read(recipe: str, settings: tuple[str, ...]) -> Recipe:
    return read_recipe(recipe, settings)
