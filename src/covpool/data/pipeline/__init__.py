"""From image files to batches on a device: decoding, cropping, augmentation, caching."""

from covpool.data.pipeline._batch import Batch as Batch
from covpool.data.pipeline._batches import EvalBatches as EvalBatches
from covpool.data.pipeline._batches import TrainBatches as TrainBatches
from covpool.data.pipeline._batches import decode_ahead as decode_ahead
from covpool.data.pipeline._decoded import Decoding as Decoding
from covpool.data.pipeline._order import Share as Share
from covpool.data.pipeline._samples import seed_of as seed_of
from covpool.data.pipeline._saved import data_settings as data_settings
from covpool.data.pipeline._saved import data_split as data_split
from covpool.data.pipeline._transforms import Crops as Crops
from covpool.data.pipeline._transforms import augment_of as augment_of
from covpool.data.pipeline._transforms import eval_transform as eval_transform
from covpool.data.pipeline._transforms import preprocessing as preprocessing
