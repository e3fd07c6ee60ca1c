"""From image files to batches on a device: decoding, cropping, augmentation, caching."""

from covpool.data.pipeline._batch import Batch
from covpool.data.pipeline._batches import EvalBatches, TrainBatches
from covpool.data.pipeline._order import Share
from covpool.data.pipeline._samples import seed_of
from covpool.data.pipeline._saved import data_settings, data_split
from covpool.data.pipeline._transforms import Crops, augment_of, eval_transform, preprocessing

__all__ = [
    "Batch",
    "Crops",
    "EvalBatches",
    "Share",
    "TrainBatches",
    "augment_of",
    "data_settings",
    "data_split",
    "eval_transform",
    "preprocessing",
    "seed_of",
]
