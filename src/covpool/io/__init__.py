"""Files: our checkpoints, those of others, and exports for deployment."""

from covpool.io._atomic import remove_leftovers, replacing
from covpool.io._checkpoint import Checkpoint, is_checkpoint, load, read_checkpoint, save
from covpool.io._description import DataSplit, EvaluationSettings, Preprocessing, TrainingRecord
from covpool.io._export import FORMATS, Exported, Format, export
from covpool.io._import_checkpoint import import_checkpoint

__all__ = [
    "FORMATS",
    "Checkpoint",
    "DataSplit",
    "EvaluationSettings",
    "Exported",
    "Format",
    "Preprocessing",
    "TrainingRecord",
    "export",
    "import_checkpoint",
    "is_checkpoint",
    "load",
    "read_checkpoint",
    "remove_leftovers",
    "replacing",
    "save",
]
