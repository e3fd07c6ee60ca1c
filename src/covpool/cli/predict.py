"""`covpool predict`: the classes of images."""

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from covpool._errors import CovpoolError, check_positive_int, require
from covpool.cli._collector import uncollected
from covpool.cli._fabric import import_fabric
from covpool.cli._options import Device, Flip, chosen_device
from covpool.cli._output import table

if TYPE_CHECKING:
    from covpool.engine.evaluation import Prediction


def command(
    checkpoint: Path,
    images: list[Path],
    *,
    top: int = 5,
    flip: Flip = None,
    json: bool = False,
    batch_size: int = 32,
    device: Device = "",
) -> None:
    """Predict the classes of images with their probabilities. The exit code is 1 if an image cannot be read.

    Args:
        checkpoint: Checkpoint of `covpool fit`, `covpool train` or `covpool.save`.
        images: Image files, or folders that contain image files.
        top: Number of classes to show for each image.
        json: Print one JSON object per line instead of a table.
        batch_size: Number of images per batch.
    """
    check_positive_int("--top", top)
    check_positive_int("--batch-size", batch_size)
    with uncollected():
        require("torchvision", "models")
        import_fabric()
        from covpool.engine.evaluation import predict

    place = chosen_device(device)
    found = predict(checkpoint, _files(images), top=top, flip=flip, batch_size=batch_size, device=place)
    all_read = True
    rows: list[tuple[str, str, str]] = []
    for prediction in found:
        all_read = all_read and not prediction.error
        if json:
            typer.echo(_json_line(prediction))
        else:
            rows += _rows(prediction)
    if not json:
        Console().print(table(("image", "class", "probability"), rows, left=2))
    if not all_read:
        raise typer.Exit(1)


def _files(paths: list[Path]) -> list[Path]:
    """The files given, and the images in the folders given."""
    from covpool.data import find_images

    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += find_images(path)
        elif path.is_file():
            files.append(path)
        else:
            raise CovpoolError(f"there is no file {path}")
    return files


def _json_line(prediction: "Prediction") -> str:
    classes = [{"class": name, "probability": value} for name, value in prediction.classes]
    line = {"image": str(prediction.path), "classes": classes}
    return json_format.dumps(line | ({"error": prediction.error} if prediction.error else {}), allow_nan=False)


def _rows(prediction: "Prediction") -> list[tuple[str, str, str]]:
    if prediction.error:
        return [(str(prediction.path), f"cannot be read: {prediction.error}", "")]
    shown = [("", name, f"{value:.2%}") for name, value in prediction.classes]
    return [(str(prediction.path), *shown[0][1:]), *shown[1:]]
