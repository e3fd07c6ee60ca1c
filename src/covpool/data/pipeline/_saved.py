"""The data settings that a checkpoint keeps, so that an evaluation opens the same images."""

from covpool.data._settings import Data
from covpool.io import DataSplit

KEPT = ("name", "root", "split", "train_on", "test_on")


def data_split(data: Data) -> DataSplit:
    """What a checkpoint keeps of the data settings of a training run.

    >>> data_split(Data(name="dtd", split=3)).split
    3
    """
    return DataSplit(**{name: getattr(data, name) for name in KEPT})


def data_settings(split: DataSplit) -> Data:
    """The settings that open the data a network was trained on."""
    return Data(**split.model_dump(include=set(KEPT)))
