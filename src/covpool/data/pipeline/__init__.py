"""From image files to batches on a device: decoding, cropping, augmentation, caching."""

from covpool.data.pipeline._batch import Batch
from covpool.data.pipeline._batches import TestBatches, TrainBatches
from covpool.data.pipeline._samples import seed_of
from covpool.data.pipeline._transforms import Crops, augment_of, preprocessing, test_transform

__all__ = [
    "Batch",
    "Crops",
    "TestBatches",
    "TrainBatches",
    "augment_of",
    "preprocessing",
    "seed_of",
    "test_transform",
]
