"""`covpool embed`: one vector per image."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from covpool._errors import CovpoolError, check_positive_int, require
from covpool.cli._options import Device, chosen_device, suggest_skip_broken
from covpool.cli._output import counting_bar, make_folder, say


def command(
    folder: Path,
    settings: list[str] | None = None,
    *,
    model: str = "torchvision/mobilenet_v2",
    out: Path = Path("vectors.npz"),
    normalize: bool = True,
    batch_size: int = 32,
    workers: Annotated[int, typer.Option(min=0)] = 2,
    skip_broken: bool = False,
    device: Device = "",
) -> None:
    """Turn images into vectors, and write them to a file with the paths, the labels and the class names.

    The vector of an image is what the classifier of a network gets. A backbone gets a pool and a PCA from these images.

    Args:
        folder: Folder of images: train/CLASS and test/CLASS, CLASS folders, or images alone.
        settings: Settings of a backbone: key=value, as in pool=isqrt width=256 size=320 weights=FILE.
        model: Checkpoint of a network, or the name of a backbone.
        out: File of the vectors: .npz or .parquet.
        normalize: Scale the vectors to unit length.
        batch_size: Number of images per batch.
        workers: Number of processes that read images.
        skip_broken: Skip images that cannot be read instead of stopping.
    """
    check_positive_int("--batch-size", batch_size)
    require("torchvision", "models")
    from covpool.data import Data, label_images
    from covpool.studies.embed import START_IMAGES, FrozenBackbone, check_output, embed, read_backbone

    check_output(out)
    images = label_images(folder)
    is_file = Path(model).is_file() or model.endswith(".safetensors")
    if is_file and settings:
        raise CovpoolError(f"{model} is a checkpoint, which has its own settings: leave {settings[0]} out")
    chosen: Path | FrozenBackbone = Path(model) if is_file else read_backbone(model, settings or [])
    console = Console()
    with suggest_skip_broken(), counting_bar(console, "reading") as on_progress:
        found = embed(
            images,
            chosen,
            make_folder(out),
            data=Data(workers=workers, broken="skip" if skip_broken else "refuse"),
            batch_size=batch_size,
            device=chosen_device(device),
            unit_length=normalize,
            on_progress=on_progress,
        )
    skipped = len(images) - len(found)
    note = f"; images skipped because they cannot be read: {skipped}" if skipped else ""
    say(console, f"wrote {len(found)} vectors of {found.vectors.shape[1]} numbers to {out}{note}")
    if isinstance(chosen, FrozenBackbone):
        used = min(len(images), START_IMAGES)
        say(
            console,
            f"the pool {chosen.pool} on {model} was started from {used} of these images; "
            f"the network is in {out.parent / found.model.path}",
        )
