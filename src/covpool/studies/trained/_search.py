"""The search for the settings of recipes, with as many trainings for average pooling as for iSQRT-COV.

Each trains on four fifths of the training images and is evaluated on the others. Test images are not used.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

from covpool._errors import CovpoolError
from covpool.studies.claims import ArmResult
from covpool.studies.trained._arm import TrainedArm
from covpool.studies.trained._queue import TrainingData

HELD_OUT = "data.test_fraction=0.2"
FINALISTS = 2  # of each recipe
FINAL_SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class Search:
    """Candidates for the settings of two recipes.

    All candidates are screened: trained once, in a cheaper way. The best of each recipe are then trained as the claims
    train them, with several seeds, and the best mean wins.

    Attributes:
        candidates: The candidates, as the claims would train them.
        cheaper: Settings that make a training of the screening cheaper.
    """

    candidates: tuple[TrainedArm, ...]
    cheaper: tuple[str, ...]

    @property
    def recipes(self) -> list[str]:
        """Names of the recipes."""
        return list(dict.fromkeys(arm.recipe for arm in self.candidates))

    @property
    def possible(self) -> list[TrainedArm]:
        """All trainings that the search may run."""
        finals = [arm.with_seed(seed) for arm in self.candidates for seed in FINAL_SEEDS]
        return [*map(self._screened, self.candidates), *finals]

    def missing(self, found: Mapping[str, ArmResult]) -> list[TrainedArm]:
        """The trainings that come next: those of the screening without a record, then those of the finals."""
        screening = [arm for arm in map(self._screened, self.candidates) if arm.name not in found]
        finals = [arm.with_seed(seed) for arm in self.finalists(found) for seed in FINAL_SEEDS]
        return screening or [arm for arm in finals if arm.name not in found]

    def stage(self, found: Mapping[str, ArmResult]) -> str:
        """What `missing` trains."""
        return "finals" if self.finalists(found) else "screening"

    def finalists(self, found: Mapping[str, ArmResult]) -> list[TrainedArm]:
        """The best candidates of each recipe by the screening; none until all of them are screened."""
        top1 = {arm: found[name].top1 for arm in self.candidates if (name := self._screened(arm).name) in found}
        if len(top1) < len(self.candidates):
            return []
        ranked = sorted(self.candidates, key=lambda arm: -top1[arm])
        return [arm for recipe in self.recipes for arm in [a for a in ranked if a.recipe == recipe][:FINALISTS]]

    def winners(self, found: Mapping[str, ArmResult]) -> list[TrainedArm]:
        """The best finalist of each recipe; none until the finals are over."""
        finalists = self.finalists(found)
        if not finalists or self.missing(found):
            return []
        means = {arm: _mean(arm, found) for arm in finalists}
        return [max((a for a in finalists if a.recipe == recipe), key=lambda a: means[a]) for recipe in self.recipes]

    def standing(self, found: Mapping[str, ArmResult]) -> list[tuple[str, int, float]]:
        """Label, number of seeds and mean accuracy of the trainings with records: finals first, the best first."""
        over = [arm for arm in self.finalists(found) if _is_over(arm, found)]
        finals = [(arm.label, len(FINAL_SEEDS), _mean(arm, found)) for arm in over]
        tried = map(self._screened, self.candidates)
        screened = [(arm.label, 1, found[arm.name].top1) for arm in tried if arm.name in found]
        return [row for rows in (finals, screened) for row in sorted(rows, key=lambda row: (self._order(row), -row[2]))]

    def _screened(self, arm: TrainedArm) -> TrainedArm:
        return replace(arm, settings=(*arm.settings, *self.cheaper))

    def _order(self, row: tuple[str, int, float]) -> int:
        return self.recipes.index(row[0].partition(" ")[0])


def _is_over(arm: TrainedArm, found: Mapping[str, ArmResult]) -> bool:
    return all(arm.with_seed(seed).name in found for seed in FINAL_SEEDS)


def _mean(arm: TrainedArm, found: Mapping[str, ArmResult]) -> float:
    return mean(found[arm.with_seed(seed).name].top1 for seed in FINAL_SEEDS)


_FOR_BOTH = (
    (),
    ("optimizer.lr=0.005",),
    ("optimizer.lr=0.02",),
    ("optimizer.weight_decay=5e-4",),
    ("train.epochs=50",),
    ("train.vector_dropout=0.5",),
)
_FOR_ONE = {
    "finetune": (
        ("optimizer.head_factor=2",),
        ("optimizer.head_factor=10",),
        ("model.keep_last_stride=true",),
        ("pool.reduce_to=128",),
        ("init.reduction=random",),
        ("pool.reduce_kind=conv_bn_relu", "init.reduction=random", "optimizer.head_factor=20"),
    ),
    "finetune-avg": (
        ("optimizer.head_factor=5",),
        ("optimizer.head_factor=20",),
        ("model.keep_last_stride=false",),
        ("model.keep_last_stride=false", "optimizer.lr=0.02"),
        ("optimizer.head_factor=5", "optimizer.lr=0.02"),
        ("optimizer.weight_decay=1e-3",),
    ),
}


def candidates(
    both: tuple[tuple[str, ...], ...], own: Mapping[str, tuple[tuple[str, ...], ...]]
) -> tuple[TrainedArm, ...]:
    """Candidates of several recipes, from the settings that all of them try and those of each."""
    return tuple(
        TrainedArm(recipe=recipe, settings=settings) for recipe, one in own.items() for settings in (*both, *one)
    )


FINE_TUNING = Search(candidates(_FOR_BOTH, _FOR_ONE), cheaper=("augment.size=224",))


def held_out(data: TrainingData) -> TrainingData:
    """The training images of a data set, a fifth of which is evaluated."""
    folder = Path(data.folder) / "train"
    if not folder.is_dir():
        raise CovpoolError(
            f"the search uses the images of FOLDER/train/CLASS alone; there is no folder {folder}: give such a FOLDER, "
            f"as in --data {data.name}=FOLDER"
        )
    return replace(data, folder=str(folder), settings=(*data.settings, HELD_OUT))
