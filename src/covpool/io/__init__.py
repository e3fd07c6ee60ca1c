"""Files: our checkpoints, those of others, and exports for deployment."""

from covpool.io._atomic import remove_leftovers as remove_leftovers
from covpool.io._atomic import replacing as replacing
from covpool.io._checkpoint import Checkpoint as Checkpoint
from covpool.io._checkpoint import is_checkpoint as is_checkpoint
from covpool.io._checkpoint import load as load
from covpool.io._checkpoint import read_checkpoint as read_checkpoint
from covpool.io._checkpoint import rebuild_saved as rebuild_saved
from covpool.io._checkpoint import save as save
from covpool.io._description import DataSplit as DataSplit
from covpool.io._description import EvaluationSettings as EvaluationSettings
from covpool.io._description import Preprocessing as Preprocessing
from covpool.io._description import TrainingRecord as TrainingRecord
from covpool.io._export import FORMATS as FORMATS
from covpool.io._export import Exported as Exported
from covpool.io._export import Format as Format
from covpool.io._export import export as export
from covpool.io._hub import HUB_FILE as HUB_FILE
from covpool.io._import_checkpoint import import_checkpoint as import_checkpoint
