"""`covpool neighbours`: the images most similar to an image."""

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from covpool._errors import check_positive_int, require
from covpool.cli._options import Device, chosen_device
from covpool.cli._output import percent_interval, say, table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def command(
    image: Path,
    *,
    vectors: Annotated[Path, typer.Option("--in")] = Path("vectors.npz"),
    model: Path | None = None,
    top: int = 5,
    json: bool = False,
    device: Device = "",
) -> None:
    """Find the embedded images that are most similar to an image, by the cosine of their vectors.

    For a second file of `covpool embed`, tell how often the most similar image has the right class.

    Args:
        image: Image file, or a file with the vectors of other images by the same model.
        vectors: File of `covpool embed`.
        model: Checkpoint that made the vectors. The default is the one that the file names. An image that was embedded
            needs none.
        top: Number of images to show.
        json: Print a JSON object instead of a table.
    """
    check_positive_int("--top", top)
    require("torchvision", "models")
    from covpool.studies.embed import SUFFIXES, check_model, embed_image, read_embeddings

    embeddings = read_embeddings(vectors)
    if image.suffix in SUFFIXES:
        _show_accuracy(embeddings.nearest_has_class_of(read_embeddings(image)), json)
        return
    row = embeddings.find(image)
    if model is not None:
        check_model(embeddings, vectors, model)
    if row is None:
        vector = embed_image(image, embeddings, vectors, model=model, device=chosen_device(device))
    else:
        vector = embeddings.vectors[row]
    found = embeddings.nearest(vector, top, skip=row)
    if json:
        nearest = [{"image": one.path, "class": one.class_name, "similarity": one.similarity} for one in found]
        typer.echo(json_format.dumps({"image": str(image), "neighbours": nearest}))
        return
    rows = [(one.path, one.class_name, f"{one.similarity:.3f}") for one in found]
    Console().print(table(("image", "class", "similarity"), rows, left=2))


def _show_accuracy(right: "NDArray[np.bool_]", json: bool) -> None:
    from covpool.engine.evaluation import wilson

    accuracy, interval = float(right.mean()), wilson(int(right.sum()), len(right))
    if json:
        typer.echo(json_format.dumps({"top1": accuracy, "interval": interval, "images": len(right)}))
        return
    say(
        Console(),
        f"the most similar image has the class of the image for {100 * accuracy:.1f} % of {len(right)} images, "
        f"95 % interval {percent_interval(interval)}",
    )
