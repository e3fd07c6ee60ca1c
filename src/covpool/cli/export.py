"""`covpool export`: a checkpoint as a file for deployment, compared with the original before it is announced."""

from pathlib import Path
from typing import cast

from rich.console import Console

from covpool._errors import check_choice
from covpool.cli._output import output_path, say


def command(
    checkpoint: Path,
    *,
    to: str = "onnx",
    out: Path | None = None,
    size: list[int] | None = None,
    channels: int = 3,
) -> None:
    """Export a checkpoint to ONNX or torch.export, run the result and compare it with the original network.

    Args:
        checkpoint: Checkpoint of `covpool fit`, `train` or `convert`, or of `covpool.save`.
        to: Format to write: onnx, or pt2 (a torch.export program).
        out: File to write. The default is CHECKPOINT with the suffix .onnx or .pt2.
        size: Height and width of the test images. Given once, the export accepts only this size; given several times,
            it accepts any size. The default is 224 and 320.
        channels: Number of channels of the images.
    """
    from covpool.io import FORMATS, Format, export, read_checkpoint

    check_choice("to", to, FORMATS)
    path = output_path(checkpoint, f".{to}", out)
    console = Console()
    saved = read_checkpoint(checkpoint)
    network = saved.load()
    sizes = size or [224, 320]
    pixels = f"{', '.join(map(str, sizes))} px"
    say(console, f"{checkpoint}: {network.num_classes} classes")
    with console.status(f"writing {path}, comparing at {pixels}"):
        kept = saved.model_dump(mode="json", include={"class_names", "preprocessing"})
        done = export(network, path, to=cast(Format, to), sizes=sizes, channels=channels, metadata=kept)
    say(
        console,
        f"wrote {done.path}, {done.path.stat().st_size / 1e6:.1f} MB; on batches of 1 and 5 images of {pixels} "
        f"its outputs differ from the network's by {done.largest_error:.1e} of the largest output",
    )
