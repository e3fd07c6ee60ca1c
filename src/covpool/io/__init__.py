"""Files: our checkpoints, those of others, and exports for deployment."""

from covpool.io.checkpoint import load, read_metadata, save
from covpool.io.export import Exported, export
from covpool.io.import_checkpoint import import_checkpoint

__all__ = ["Exported", "export", "import_checkpoint", "load", "read_metadata", "save"]
