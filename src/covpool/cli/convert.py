"""`covpool convert`: checkpoints of other covariance-pooling projects into covpool checkpoints."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import covpool
from covpool.cli._output import output_path, say


def command(
    checkpoint: Annotated[Path, typer.Argument(help="Checkpoint to convert: a .pth, .pth.tar or .safetensors file.")],
    out: Annotated[
        Path | None, typer.Option(help="File to write. The default is CHECKPOINT with the suffix .safetensors.")
    ] = None,
    num_classes: Annotated[
        int | None, typer.Option(help="Replace the last layer by a new, untrained one for this number of classes.")
    ] = None,
    iterations: Annotated[
        int, typer.Option(help="Number of Newton-Schulz iterations, which no checkpoint records.")
    ] = 5,
    keep_last_stride: Annotated[
        bool | None,
        typer.Option(
            "--keep-last-stride/--remove-last-stride",
            help="Whether the backbone keeps its last stride. Needed only if the checkpoint does not tell.",
        ),
    ] = None,
) -> None:
    """Convert a checkpoint of fast-MPN-COV or GCP_Optimization into one for `covpool.load`."""
    path = output_path(checkpoint, ".safetensors", out)
    console = Console()
    with console.status(f"reading {checkpoint}"):
        network = covpool.import_checkpoint(
            checkpoint, num_classes=num_classes, iterations=iterations, keep_last_stride=keep_last_stride
        )
    say(console, f"layout {network.origin}; {network.num_classes} classes")
    covpool.save(network, path)
    say(console, f"wrote {path}: covpool.load({str(path)!r})")
