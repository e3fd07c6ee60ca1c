"""The search for the settings of fine-tuning, with as many trainings for average pooling as for iSQRT-COV.

Each trains on four fifths of the training images and is evaluated on the others. Test images are not used.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from covpool.studies.claims import ArmResult
from covpool.studies.trained._arm import TrainedArm
from covpool.studies.trained._queue import TrainingData

SEARCH_PATTERN = "search_*.jsonl"
HELD_OUT = "data.test_fraction=0.2"
SMALL = "augment.size=224"
FOR_ALL = (
    (),
    ("optimizer.lr=0.005",),
    ("optimizer.lr=0.02",),
    ("optimizer.weight_decay=5e-4",),
)
FOR_ONE = {
    "finetune": (
        ("optimizer.head_factor=2",),
        ("optimizer.head_factor=10",),
        ("model.keep_last_stride=true",),
        ("pool.reduce_to=128",),
        ("pool.reduce_kind=conv_bn_relu", "init.reduction=random", "optimizer.head_factor=20"),
    ),
    "finetune-avg": (
        ("optimizer.head_factor=5",),
        ("optimizer.head_factor=20",),
        ("model.keep_last_stride=false",),
        ("model.keep_last_stride=false", "optimizer.lr=0.02"),
        ("optimizer.head_factor=5", "optimizer.lr=0.02"),
    ),
}
TRIED = tuple(
    TrainedArm(recipe=recipe, settings=(SMALL, *settings))
    for recipe, own in FOR_ONE.items()
    for settings in (*FOR_ALL, *own)
)


def held_out(data: TrainingData) -> TrainingData:
    """The training images of a data set, a fifth of which is evaluated.

    >>> held_out(TrainingData("cub200", "/data/cub")).folder
    '/data/cub/train'
    """
    return replace(data, folder=str(Path(data.folder) / "train"), settings=(*data.settings, HELD_OUT))


def best_first(tried: Sequence[TrainedArm], found: dict[str, ArmResult]) -> list[tuple[str, float]]:
    """The trainings of a search with their accuracies on held-out images, the best first for each recipe."""
    recipes = list(dict.fromkeys(arm.recipe for arm in tried))
    known = [arm for arm in tried if arm.name in found]
    known.sort(key=lambda arm: (recipes.index(arm.recipe), -found[arm.name].top1))
    return [(arm.label, found[arm.name].top1) for arm in known]
