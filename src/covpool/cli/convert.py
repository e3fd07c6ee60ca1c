"""`covpool convert`: checkpoints of other covariance-pooling projects into covpool checkpoints."""

from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console

import covpool
from covpool.cli._output import output_path, say


def command(
    checkpoint: Path,
    *,
    out: Path | None = None,
    num_classes: int | None = None,
    iterations: int = 5,
    keep_last_stride: Annotated[bool | None, typer.Option("--keep-last-stride/--remove-last-stride")] = None,
    stride_in: str | None = None,
) -> None:
    """Convert a checkpoint of fast-MPN-COV, GCP_Optimization, DropCov or pytorchcv into one for `covpool.load`.

    Args:
        checkpoint: Checkpoint to convert: a .pth, .pth.tar or .safetensors file.
        out: File to write. The default is CHECKPOINT with the suffix .safetensors.
        num_classes: Replace the last layer by a new, untrained one for this number of classes.
        iterations: Number of Newton-Schulz iterations, which no checkpoint records.
        keep_last_stride: Whether the backbone keeps its last stride. Needed only if the checkpoint does not tell.
        stride_in: Which convolutions of the bottlenecks have the strides, 1x1 or 3x3, for ResNets of pytorchcv, whose
            checkpoints do not tell. The default is 3x3, which the output names as assumed.
    """
    path = output_path(checkpoint, ".safetensors", out)
    console = Console()
    with console.status(f"reading {checkpoint}"):
        network = covpool.import_checkpoint(
            checkpoint,
            num_classes=num_classes,
            iterations=iterations,
            keep_last_stride=keep_last_stride,
            stride_in=cast(Any, stride_in),
        )
    say(console, f"layout {network.origin}; {network.num_classes} classes")
    covpool.save(network, path)
    say(console, f"wrote {path}: covpool.load({str(path)!r})")
