"""`covpool predict`: what is in these pictures."""

import json as json_format
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from covpool._check import check_positive_int, require
from covpool._errors import CovpoolError
from covpool.cli.device_option import chosen_device

PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")


def predict_command(
    checkpoint: Annotated[Path, typer.Argument(help="of `covpool train` or `covpool.save`")],
    pictures: Annotated[list[Path], typer.Argument(help="files, or folders of them")],
    top: Annotated[int, typer.Option(help="classes to name")] = 5,
    flip: Annotated[bool, typer.Option(help="average over the mirror image")] = False,
    json: Annotated[bool, typer.Option(help="one JSON object a line instead of a table")] = False,
    batch_size: Annotated[int, typer.Option(help="pictures at a time")] = 32,
    device: Annotated[str, typer.Option(help="cpu or cuda; the GPU if there is one")] = "",
) -> None:
    """Name the classes of pictures with their probabilities; the exit code is 1 if one of them cannot be read."""
    check_positive_int("--top", top)
    check_positive_int("--batch-size", batch_size)
    require("torchvision", "models")
    from covpool.engine.evaluation import predict

    place, unread = chosen_device(device), 0
    table = Table("picture", "class", "probability")
    table.columns[0].overflow = "fold"  # whole names
    found = predict(checkpoint, _files(pictures), top=top, flip=flip, batch_size=batch_size, device=place)
    for prediction in found:
        unread += bool(prediction.error)
        if json:
            classes = [{"class": name, "probability": value} for name, value in prediction.classes]
            line = {"picture": str(prediction.path), "classes": classes}
            typer.echo(json_format.dumps(line | ({"error": prediction.error} if prediction.error else {})))
            continue
        rows = prediction.classes or (((f"cannot be read: {prediction.error}"), None),)
        for i, (name, value) in enumerate(rows):
            table.add_row(
                "" if i else escape(str(prediction.path)), escape(name), "" if value is None else f"{value:.2%}"
            )
    if not json:
        Console().print(table)
    if unread:
        raise typer.Exit(1)


def _files(pictures: list[Path]) -> list[Path]:
    """The files named, and those in the folders named."""
    files: list[Path] = []
    for path in pictures:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.suffix.lower() in PICTURES)
            if not inside:
                raise CovpoolError(f"there are no pictures in the folder {path}")
            files += inside
        elif path.is_file():
            files.append(path)
        else:
            raise CovpoolError(f"there is no file {path}")
    return files
