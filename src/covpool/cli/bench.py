"""`covpool bench`: speed and error, side by side."""

import math
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich import box
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from covpool._check import check_choice
from covpool.bench import (
    HEADS,
    SUITES,
    Record,
    check_picture,
    environment,
    measure_loading,
    measure_model,
    plot_curves,
    plot_throughput,
    read_records,
    run_suite,
    write_records,
)
from covpool.cli.device_option import chosen_device

UNKNOWN = "-"


def bench(
    suites: Annotated[list[str] | None, typer.Argument(help=f"which of: {', '.join(SUITES)}; all by default")] = None,
    json: Annotated[Path | None, typer.Option(help="append the records to this file, one JSON object a line")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda; the GPU if there is one")] = "",
    seconds: Annotated[float, typer.Option(help="about how long to measure each shape")] = 5.0,
    seed: Annotated[int, typer.Option(help="of the random inputs")] = 0,
    model: Annotated[str, typer.Option(help="time training steps of this backbone with every head instead")] = "",
    batch: Annotated[
        list[int] | None, typer.Option(min=1, help="images per training step, 128 if not given; several for a curve")
    ] = None,
    size: Annotated[int, typer.Option(min=1, help="of the images of a training step")] = 224,
    head: Annotated[
        list[str] | None,
        typer.Option(help=f"pools whose training steps are timed, {', '.join(HEADS)} if not given"),
    ] = None,
    data: Annotated[
        str, typer.Option(help="with --model: a folder train/CLASS, test/CLASS; do its pictures keep up with training?")
    ] = "",
    matmul_precision: Annotated[
        str,
        typer.Option(help="torch's float32 matmul precision: highest, high (TF32) or medium; torch's own if not given"),
    ] = "",
    plot: Annotated[
        Path | None, typer.Option(help="draw the curves of the file given by --json into this picture")
    ] = None,
) -> None:
    """Time every operation and pool, forward and backward, with its error against float64 beside it."""
    for suite in suites or ():
        if suite not in SUITES:
            raise typer.BadParameter(f"there is no suite {suite!r}; there are {', '.join(SUITES)}")
    if not 0 < seconds < math.inf:
        raise typer.BadParameter(f"--seconds must be a positive number; got {seconds}")
    if not model and (data or head or batch):
        raise typer.BadParameter("--data, --head and --batch belong to training steps: name a backbone with --model")
    if plot is not None:
        _check_plot(plot, json, drawn=not data if model else "curves" in (suites or SUITES))
    if json is not None:
        write_records(json, [], {})  # a path that cannot be written is noticed now
    if matmul_precision:
        check_choice("--matmul-precision", matmul_precision, ("highest", "high", "medium"))
        torch.set_float32_matmul_precision(matmul_precision)
    place = torch.device(chosen_device(device))
    where = environment(place, seed)
    console = Console()
    console.print(f"{where['device']}, torch {where['torch']}, matmul precision {where['matmul_precision']}")
    measured: Iterable[Record]
    if model and data:
        measured = measure_loading(model, data, place, batch=(batch or [64])[0], size=size)
    elif model:
        measured = measure_model(model, place, seconds, batches=batch or (128,), size=size, heads=head or HEADS)
    else:
        measured = (record for suite in suites or SUITES for record in run_suite(suite, place, seconds, seed))
    written = 0
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        kept = _kept(measured, json, where, progress)
        for (suite, shape), group in groupby(kept, key=lambda record: (record.suite, record.shape)):
            records = list(group)
            _print(console, _table(suite, shape, records))
            written += len(records)
    if json is not None:
        console.print(f"{written} records appended to {json}")
    if plot is not None and json is not None:
        (plot_throughput if model else plot_curves)(read_records(json), plot)
        console.print(f"plot: {plot}")


def _kept(measured: Iterable[Record], json: Path | None, where: dict[str, Any], progress: Progress) -> Iterator[Record]:
    """The records as they come, each in the file and named beside the clock."""
    task = progress.add_task("measuring")
    for record in measured:
        if json is not None:
            write_records(json, [record], where)
        progress.update(task, description=f"{record.suite} {record.name} {record.shape}")
        yield record


def _check_plot(plot: Path, json: Path | None, drawn: bool) -> None:
    """Refuse what could not be drawn in the end: before anything is measured."""
    if json is None:
        raise typer.BadParameter("--plot draws what --json keeps: give both")
    if not drawn:
        raise typer.BadParameter("--plot draws the suite 'curves', or training steps (--model without --data)")
    check_picture(plot)


def _table(suite: str, shape: tuple[int, ...], records: list[Record]) -> Table:
    """One comparison at one shape; the ratio is that of the first row to each, in the same run."""
    extra = list(dict.fromkeys(key for record in records for key in record.extra))
    limits = {key: next(r.extra[key] for r in records if key in r.extra) for key in extra if key.startswith("limit_")}
    columns = {
        "ms": [_number(record.median_ms) for record in records],
        "20-80%": [f"{_number(record.p20_ms)}-{_number(record.p80_ms)}" for record in records],
        "ratio": [_number(record.ratio, "{:.2f}x" if (record.ratio or 0) >= 0.1 else "{:.1g}x") for record in records],
        "value error": [_number(record.value_error, "{:.1e}") for record in records],
        "gradient error": [_number(record.gradient_error, "{:.1e}") for record in records],
        **{_words(key): [_extra(key, r.extra.get(key)) for r in records] for key in extra if key not in limits},
    }
    columns = {heading: cells for heading, cells in columns.items() if set(cells) != {UNKNOWN}}
    title = ", ".join([suite, " x ".join(map(str, shape)), records[0].passes])
    title += "".join(f", {_words(key)} {value:.0f}" for key, value in limits.items())
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("way", min_width=10, overflow="fold")
    for heading, cells in columns.items():
        words = heading.split()
        width = max(map(len, [*words, *cells]))
        table.add_column("\n".join(words), justify="right", vertical="bottom", min_width=width, no_wrap=True)
    for record, row in zip(records, zip(*columns.values(), strict=True), strict=True):
        table.add_row(record.name, *row)
    return table


def _print(console: Console, table: Table) -> None:
    """A table that is wider than the terminal, or than a pipe is taken for, is broken by it rather than cut."""
    needed = sum((column.min_width or 0) + 1 for column in table.columns) + 1  # with the blanks between them
    console.width = max(console.width, needed)
    console.print(table)


def _words(key: str) -> str:
    words = key.replace("_per_", "/").replace("_", " ")
    return words.replace("mib", "MiB").replace("tflops", "TFLOP/s").replace("gb/", "GB/")


def _extra(key: str, value: float | None) -> str:
    return _number(value, "{:.0%}" if key.startswith("share_") else "")


def _number(value: float | None, pattern: str = "") -> str:
    """Three digits and all before the point, if no pattern is given."""
    if value is None:
        return UNKNOWN
    return (pattern or ("{:.3g}" if abs(value) < 100 else "{:.0f}")).format(value)
