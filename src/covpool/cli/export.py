"""`covpool export`: a checkpoint for deployment, proved before it is announced."""

from pathlib import Path
from typing import Annotated, cast

import typer
from rich.console import Console

import covpool
from covpool._check import check_choice
from covpool.cli.output import output_path
from covpool.io import FORMATS, Format


def export(
    checkpoint: Annotated[Path, typer.Argument(help="a file of covpool.save or `covpool convert`")],
    to: Annotated[str, typer.Option(help=" or ".join(FORMATS))] = "onnx",
    out: Annotated[
        Path | None, typer.Option(help="the file to write; CHECKPOINT with .onnx or .pt2 by default")
    ] = None,
    size: Annotated[
        list[int] | None,
        typer.Option(help="side of the pictures to compare at; once fixes the size, several times leaves it free"),
    ] = None,
    channels: Annotated[int, typer.Option(help="of the pictures")] = 3,
) -> None:
    """Write a torch.export program or an ONNX file, run it, and compare it with the checkpoint's own network."""
    check_choice("to", to, FORMATS)
    path = output_path(checkpoint, f".{to}", out)
    console = Console()
    about = covpool.io.read_metadata(checkpoint)
    network = covpool.load(checkpoint)
    sizes = size or [224, 320]
    console.print(f"{checkpoint}: {network.num_classes} classes", markup=False)
    with console.status(f"writing {path}, comparing at {', '.join(map(str, sizes))} px"):
        kept = {key: about[key] for key in ("class_names", "preprocessing")}
        done = covpool.io.export(network, path, to=cast(Format, to), sizes=sizes, channels=channels, metadata=kept)
    console.print(
        f"wrote {done.path}, {done.path.stat().st_size / 1e6:.1f} MB: run again on 1 and 5 pictures of "
        f"{', '.join(map(str, sizes))} px it differs by {done.largest_error:.1e} of the largest output",
        markup=False,
    )
