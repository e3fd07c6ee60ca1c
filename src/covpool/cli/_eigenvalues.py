"""Figure 7 on the terminal: the eigenvalues of all test images."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from covpool.cli._output import counting_bar, make_folder, say, table
from covpool.cli.eval import data_of


def show_eigenvalues(source: Path, roots: Sequence[str], path: Path, device: str, console: Console) -> None:
    """Count the eigenvalues of all test images, plot them, and keep the counts as JSON lines.

    Args:
        source: Checkpoint, or folder of a run.
        roots: FOLDER or NAME:FOLDER of the data set; the last one counts. The default is that of the checkpoint.
        path: Image file to write. The numbers are written beside it.
        device: Device that runs the network.
        console: Where to print.
    """
    import torch

    from covpool._records import environment
    from covpool.data.sets import open_data
    from covpool.engine.evaluation import LoadedCheckpoint
    from covpool.engine.training import find_checkpoint
    from covpool.studies import paper

    checkpoint = find_checkpoint(source) if source.is_dir() else source
    data = data_of(checkpoint, roots[-1] if roots else "", 0)
    loaded, test = LoadedCheckpoint.read(checkpoint, device), open_data(data).test
    with counting_bar(console, "eigenvalues") as on_progress:
        counts = paper.count_eigenvalues(paper.image_spectra(loaded, test, data, device, on_progress))
    rows = [
        (one.which, str(one.images), str(one.eigenvalues), f"{one.zero:.1%}", f"{one.largest:.3g}") for one in counts
    ]
    console.print(table(("normalization", "images", "eigenvalues", "zero", "largest"), rows))
    paper.plot_eigenvalues(counts, f"{checkpoint}, {counts[0].images} test images", make_folder(path))
    about = {**environment(torch.device(device), 0), "item": "figure 7", "checkpoint": str(checkpoint)}
    numbers = path.with_suffix(".jsonl")
    numbers.write_text("".join(json.dumps({**asdict(one), **about}) + "\n" for one in counts))
    say(console, f"plot: {path}; numbers: {numbers}")
