"""Files: our checkpoints, those of others, and exports for deployment."""

from covpool.io._atomic import remove_leftovers, replacing
from covpool.io._checkpoint import load, read_metadata, save
from covpool.io._export import FORMATS, Exported, Format, export
from covpool.io._import_checkpoint import import_checkpoint

__all__ = [
    "FORMATS",
    "Exported",
    "Format",
    "export",
    "import_checkpoint",
    "load",
    "read_metadata",
    "remove_leftovers",
    "replacing",
    "save",
]
