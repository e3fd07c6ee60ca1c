"""An arm: one training that a claim compares with others."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from covpool.recipe import Recipe, read_recipe

TOLD = {"name", "about", "source", "seed", "data", "devices"}  # parts of a recipe that do not change what is learned


@dataclass(frozen=True, kw_only=True)
class TrainedArm:
    """A training by a recipe, with everything but the data set that its accuracy depends on.

    Attributes:
        recipe: Name of the recipe.
        settings: Settings that replace those of the recipe, as on the command line.
        seed: Seed of the training.
        fused_with: Another training, to whose log-probabilities those of this one are added.
        starts_from: A training from scratch, whose network this one starts from.
    """

    recipe: str
    settings: tuple[str, ...] = ()
    seed: int = 1
    fused_with: "TrainedArm | None" = None
    starts_from: "TrainedArm | None" = None

    @property
    def name(self) -> str:
        """Recipe and settings as typed for `covpool train`. The name identifies the arm in the records.

        >>> TrainedArm(recipe="finetune", settings=("pool.name=cov",)).name
        'finetune pool.name=cov seed=1'
        """
        return self._joined(" ".join([self.recipe, *self.settings, f"seed={self.seed}"]), "name")

    @property
    def label(self) -> str:
        """The name without seeds."""
        return self._joined(" ".join([self.recipe, *self.settings]), "label")

    def _joined(self, own: str, kind: str) -> str:
        if self.starts_from is not None:
            own += f" from {getattr(self.starts_from, kind)}"
        return own if self.fused_with is None else f"{own} + {getattr(self.fused_with, kind)}"

    @property
    def resolved(self) -> Recipe:
        """The recipe with the settings.

        >>> TrainedArm(recipe="finetune").resolved.augment.size
        320
        """
        return _read(self.recipe, self.settings)

    @property
    def digest(self) -> str:
        """Eight digits that change with every setting of the trainings, whether it is the recipe's or the arm's."""
        trainings = [one for one in (self, self.fused_with) if one is not None]
        trainings += [one.starts_from for one in trainings if one.starts_from is not None]
        told = [
            one.resolved.model_dump(mode="json", exclude=TOLD, exclude_defaults=True) | {"seed": one.seed}
            for one in trainings
        ]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def minutes(self) -> float:
        """The minutes of an H200 that the training takes if four run at once. Fused trainings take none of their own.

        >>> TrainedArm(recipe="finetune").minutes
        0.9
        """
        if self.fused_with is not None:
            return 0.0
        recipe = self.resolved
        pace, size = PACE[self.recipe.removesuffix("-avg"), recipe.model.backbone]
        assert recipe.augment.size is not None
        own = pace * recipe.train.epochs / EPOCHS * (recipe.augment.size / size) ** 2
        own *= KEPT_STRIDE if recipe.model.keep_last_stride and "resnet" in recipe.model.backbone else 1
        return own + (0.0 if self.starts_from is None else self.starts_from.minutes)

    def with_seed(self, seed: int) -> "TrainedArm":
        """The same trainings with another seed."""
        fused_with, starts_from = (one and one.with_seed(seed) for one in (self.fused_with, self.starts_from))
        return replace(self, seed=seed, fused_with=fused_with, starts_from=starts_from)

    @property
    def alone(self) -> "TrainedArm":
        """The training without the one that it is fused with."""
        return replace(self, fused_with=None)


EPOCHS = 25
# Minutes of an H200 for 25 epochs, and the image size in pixels they are for. Those of `finetune` are recorded, with
# four trainings at once. The others follow from multiply-adds, at the rate of the recorded ResNet-50.
PACE = {
    ("finetune", "torchvision/mobilenet_v2"): (0.9, 320),
    ("finetune", "covpool/resnet18_small_stem"): (0.6, 64),
    ("scratch", "covpool/resnet18_small_stem"): (5.2, 64),
    ("scratch", "covpool/resnet34_small_stem"): (9.7, 64),
    ("scratch", "covpool/resnet50_small_stem"): (10.8, 64),
}
KEPT_STRIDE = 0.6  # of the multiply-adds of a ResNet are left if it keeps its last stride


def minutes(arms: Sequence[TrainedArm]) -> float:
    """Return the minutes of an H200 that the trainings take."""
    return sum(arm.minutes for arm in arms)


def in_minutes(arms: Sequence[TrainedArm]) -> str:
    """Write how many trainings there are, and how long they take.

    >>> in_minutes([TrainedArm(recipe="finetune", seed=seed) for seed in range(10)])
    '10 trainings, 9 minutes of an H200'
    """
    return f"{len(arms)} trainings, {minutes(arms):.0f} minutes of an H200"


@cache
def _read(recipe: str, settings: tuple[str, ...]) -> Recipe:
    return read_recipe(recipe, settings)
