"""The data settings that a checkpoint keeps, so that an evaluation opens the same images."""

from covpool.data._fingerprint import image_fingerprint
from covpool.data._settings import Data
from covpool.data.sets import Splits
from covpool.io import DataSplit

KEPT = ("name", "root", "split", "validation_fraction", "train_on", "test_on")


def data_split(data: Data, splits: Splits | None = None) -> DataSplit:
    """What a checkpoint keeps of the data of a training run.

    Args:
        data: The settings of the data.
        splits: The data that they open. Their numbers and fingerprints are kept, and the seed if anything is random.

    >>> data_split(Data(name="dtd", split=3)).split
    3
    """
    settings = {name: getattr(data, name) for name in KEPT}
    if splits is None:
        return DataSplit(**settings, split_seed=data.split_seed, split_fraction=data.test_fraction)
    parts, random = splits.parts(), splits.random
    return DataSplit(
        **settings,
        split_seed=random.seed if random else None if data.validation_fraction is None else data.split_seed,
        split_fraction=random.fraction if random else None,
        images={name: len(images) for name, images in parts.items()},
        fingerprints={name: image_fingerprint(images) for name, images in parts.items()},
    )


def data_settings(split: DataSplit) -> Data:
    """The settings that open the data a network was trained on."""
    kept = split.model_dump(include=set(KEPT))
    return Data(**kept, split_seed=split.split_seed, test_fraction=split.split_fraction)
