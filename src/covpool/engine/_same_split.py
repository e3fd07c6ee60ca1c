"""The split that a checkpoint keeps, random or official: its test images are never trained on."""

import logging

from covpool._errors import CovpoolError
from covpool.data import Data, image_fingerprint
from covpool.data.sets import Splits
from covpool.io import Checkpoint, DataSplit, is_checkpoint, read_checkpoint
from covpool.recipe import Recipe

logger = logging.getLogger(__name__)


def split_of_weights(recipe: Recipe) -> Data:
    """The data settings of a recipe; what it leaves unset of what is drawn at random is that of its `init.weights`."""
    data, weights = recipe.data, recipe.init.weights
    kept = read_checkpoint(weights).data if weights and is_checkpoint(weights) else None
    if kept is None or kept.name != data.name:
        return data
    if kept.split_fraction is None and data.validation_fraction is None:  # nothing is drawn
        return data
    return data.changed(
        split_seed=kept.split_seed if data.split_seed is None else data.split_seed,
        test_fraction=kept.split_fraction if data.test_fraction is None else data.test_fraction,
    )


def check_same_split(checkpoint: Checkpoint, data: Data, splits: Splits, *, force: bool = False) -> None:
    """Refuse a split of the same classes that may test on images the checkpoint was trained on.

    A checkpoint keeps its random split of a flat folder and the number of its official split, such as DTD's. Other
    classes and other data sets pass.

    Args:
        checkpoint: The checkpoint.
        data: Settings of the data to test on.
        splits: What they open.
        force: Log a warning instead.
    """
    if checkpoint.data is None or checkpoint.class_names != splits.train.classes:
        return
    reason = _other_official_split(checkpoint.data, data) or _other_random_split(checkpoint.data, splits)
    if not reason:
        return
    message = f"{checkpoint.path} {reason}"
    if not force:
        raise CovpoolError(message)
    logger.warning("%s. The accuracy is not a result: test images may be training images", message)


def warn_of_seen_validation(checkpoint: Checkpoint, splits: Splits) -> None:
    """Log a warning if a checkpoint to start from was trained on other images than these, perhaps the validation set.

    Args:
        checkpoint: The checkpoint.
        splits: The images to train and validate on. Other classes and other data sets are not compared.
    """
    kept = checkpoint.data
    if splits.validation is None or kept is None or checkpoint.class_names != splits.train.classes:
        return
    if kept.fingerprints.get("train") not in (None, image_fingerprint(splits.train)):
        logger.warning(
            "%s may have been trained on the validation images, which the best epoch is chosen on: train it with the "
            "same data.validation_fraction and data.split_seed, or leave data.validation_fraction out",
            checkpoint.path,
        )


def _other_official_split(kept: DataSplit, data: Data) -> str:
    """Say what is wrong with testing on another official split; empty if nothing is."""
    if kept.name != data.name:
        return ""
    if kept.split != data.split:
        return (
            f"was trained on split {kept.split} of {kept.name}, whose training images may be test images of split "
            f"{data.split}: use split {kept.split}"
        )
    if kept.train_on == "train+val" and data.test_on == "val" and kept.test_on != "val":
        return f"was trained on train+val of {kept.name}, which includes val: test it on {kept.test_on}"
    return ""


def _other_random_split(kept: DataSplit, splits: Splits) -> str:
    """Say what is wrong with testing on another random split; empty if nothing is."""
    if kept.split_fraction is None or splits.random is None:
        return ""
    now = {"test": image_fingerprint(splits.test)}
    if splits.validation is None and "validation" not in kept.fingerprints:
        now["train"] = image_fingerprint(splits.train)
    if all(kept.fingerprints.get(part) in (None, mark) for part, mark in now.items()):
        return ""
    wanted = f"split_seed={kept.split_seed}, test_fraction={kept.split_fraction}"
    same_settings = (splits.random.seed, splits.random.fraction) == (kept.split_seed, kept.split_fraction)
    counts = f"{len(splits.train)} training and {len(splits.test)} test images"
    remedy = (
        f"got other files ({counts}; kept: {kept.images.get('train')} and {kept.images.get('test')}): restore the files"
        if same_settings
        else f"got split_seed={splits.random.seed}, test_fraction={splits.random.fraction}: leave them out"
    )
    return (
        f"keeps a random split ({wanted}), and another one would test on its training images; {remedy}, or give the "
        "data folders train and test"
    )
