"""The random split of a flat folder, which a checkpoint keeps: its test images are never trained on."""

from covpool._errors import CovpoolError
from covpool.data import Data, image_fingerprint
from covpool.data.sets import Splits
from covpool.io import Checkpoint, is_checkpoint, read_checkpoint
from covpool.recipe import Recipe


def split_of_weights(recipe: Recipe) -> Data:
    """The data settings of a recipe; what it leaves unset of the random split is that of its `init.weights`."""
    data, weights = recipe.data, recipe.init.weights
    kept = read_checkpoint(weights).data if weights and is_checkpoint(weights) else None
    if kept is None or kept.split_seed is None or kept.name != data.name:
        return data
    return data.changed(
        split_seed=kept.split_seed if data.split_seed is None else data.split_seed,
        test_fraction=kept.split_fraction if data.test_fraction is None else data.test_fraction,
    )


def check_same_split(checkpoint: Checkpoint, splits: Splits) -> None:
    """Refuse a random split of the same classes that differs from the one a checkpoint keeps.

    Args:
        checkpoint: The checkpoint. One that keeps no random split passes.
        splits: The data. A split that the data set comes with passes, and so do other classes.
    """
    kept = checkpoint.data
    if kept is None or kept.split_seed is None or splits.random is None:
        return
    if checkpoint.class_names != splits.train.classes:
        return
    now = {"train": image_fingerprint(splits.train), "test": image_fingerprint(splits.test)}
    if all(kept.fingerprints.get(part) in (None, mark) for part, mark in now.items()):
        return
    wanted = f"split_seed={kept.split_seed}, test_fraction={kept.split_fraction}"
    same_settings = (splits.random.seed, splits.random.fraction) == (kept.split_seed, kept.split_fraction)
    counts = f"{len(splits.train)} training and {len(splits.test)} test images"
    reason = (
        f"got other files ({counts}; kept: {kept.images.get('train')} and {kept.images.get('test')}): restore the files"
        if same_settings
        else f"got split_seed={splits.random.seed}, test_fraction={splits.random.fraction}: leave them out"
    )
    raise CovpoolError(
        f"{checkpoint.path} keeps a random split ({wanted}), and another one would test on its training images; "
        f"{reason}, or give the data folders train and test"
    )
