"""An arm: one training that a claim compares with others."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class TrainedArm:
    """A training by a recipe, with everything but the data set that its accuracy depends on.

    Attributes:
        recipe: Name of the recipe.
        settings: Settings that replace those of the recipe, as on the command line.
        seed: Seed of the training.
    """

    recipe: str
    settings: tuple[str, ...] = ()
    seed: int = 1

    @property
    def name(self) -> str:
        """Recipe and settings as typed for `covpool train`. The name identifies the arm in the records.

        >>> TrainedArm(recipe="finetune", settings=("pool.name=cov",)).name
        'finetune pool.name=cov seed=1'
        """
        return " ".join([self.recipe, *self.settings, f"seed={self.seed}"])

    @property
    def size(self) -> int:
        """The image size, which determines how long a training takes.

        >>> TrainedArm(recipe="finetune", settings=("augment.size=224",)).size
        224
        """
        sizes = [setting.partition("=")[2] for setting in self.settings if setting.startswith("augment.size=")]
        return int(sizes[-1]) if sizes else USUAL_SIZE

    def with_seed(self, seed: int) -> "TrainedArm":
        """The same training with another seed."""
        return replace(self, seed=seed)


USUAL_SIZE = 320  # of the recipes `finetune` and `finetune-avg`
