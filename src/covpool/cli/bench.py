"""`covpool bench`: speed and error, side by side."""

from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from covpool.bench import SUITES, Record, measure_model, run_suite, write_records
from covpool.bench.record import environment


def bench(
    suites: Annotated[list[str] | None, typer.Argument(help=f"which of: {', '.join(SUITES)}; all by default")] = None,
    json: Annotated[Path | None, typer.Option(help="append the records to this file, one JSON object a line")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda; the GPU if there is one")] = "",
    seconds: Annotated[float, typer.Option(help="about how long to measure each shape")] = 5.0,
    seed: Annotated[int, typer.Option(help="of the random inputs")] = 0,
    model: Annotated[str, typer.Option(help="time training steps of this backbone with every head instead")] = "",
    batch: Annotated[int, typer.Option(help="images per training step")] = 128,
    size: Annotated[int, typer.Option(help="of the images of a training step")] = 224,
) -> None:
    """Time every operation and pool, forward and backward, with its error against float64 beside it."""
    for suite in suites or ():
        if suite not in SUITES:
            raise typer.BadParameter(f"there is no suite {suite!r}; there are {', '.join(SUITES)}")
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    where = environment(place, seed)
    console = Console()
    console.print(f"{where['device']}, torch {where['torch']}, matmul precision {where['matmul_precision']}")
    measured = (
        measure_model(model, place, seconds, batch=batch, size=size)
        if model
        else (record for suite in suites or SUITES for record in run_suite(suite, place, seconds, seed))
    )
    records: list[Record] = []
    with Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), transient=True) as progress:
        task = progress.add_task("measuring")
        for record in measured:
            records.append(record)
            if json is not None:
                write_records(json, [record], where)
            progress.update(task, description=f"{record.suite} {record.name} {record.shape}")
    console.print(_table(records))
    if json is not None:
        console.print(f"{len(records)} records appended to {json}")


def _table(records: list[Record]) -> Table:
    table = Table(title="Time per call; ratio = the first row of each group over this one, in the same run")
    headings = ["suite", "b, n, c", "way", "ms", "20-80 %", "ratio", "value error", "gradient error"]
    figures = list(dict.fromkeys(key for record in records for key in record.extra))
    for heading in headings + figures:
        table.add_column(heading, justify="left" if heading in headings[:3] else "right")
    last = None
    for record in records:
        if last not in (None, (record.suite, record.shape)):
            table.add_section()
        last = (record.suite, record.shape)
        table.add_row(
            record.suite,
            ", ".join(map(str, record.shape)),
            record.name,
            f"{record.median_ms:.3g}",
            f"{record.p20_ms:.3g}-{record.p80_ms:.3g}",
            "-" if record.ratio is None else f"{record.ratio:.2f}x",
            "-" if record.value_error is None else f"{record.value_error:.1e}",
            "-" if record.gradient_error is None else f"{record.gradient_error:.1e}",
            *(f"{record.extra[key]:.4g}" if record.extra.get(key) is not None else "-" for key in figures),
        )
    return table
