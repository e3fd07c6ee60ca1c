"""`covpool convert`: other people's covariance-pooling checkpoints into ours."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import covpool
from covpool.cli.output import output_path


def convert(
    checkpoint: Annotated[Path, typer.Argument(help="a .pth, .pth.tar or .safetensors file")],
    out: Annotated[Path | None, typer.Option(help="the file to write; CHECKPOINT with .safetensors by default")] = None,
    num_classes: Annotated[int | None, typer.Option(help="a fresh last layer for so many classes")] = None,
    iterations: Annotated[int, typer.Option(help="of Newton-Schulz, which no file tells")] = 5,
    keep_last_stride: Annotated[
        bool | None,
        typer.Option("--keep-last-stride/--remove-last-stride", help="where the file does not tell it"),
    ] = None,
) -> None:
    """Read a checkpoint of fast-MPN-COV or GCP_Optimization and write one of ours, for `covpool.load`."""
    path = output_path(checkpoint, ".safetensors", out)
    console = Console()
    with console.status(f"reading {checkpoint}"):
        network = covpool.import_checkpoint(
            checkpoint, num_classes=num_classes, iterations=iterations, keep_last_stride=keep_last_stride
        )
    console.print(f"layout {network.origin}; {network.num_classes} classes", markup=False)
    covpool.save(network, path)
    console.print(f"wrote {path}: covpool.load({str(path)!r})", markup=False)
