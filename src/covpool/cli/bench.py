"""`covpool bench`: speed and error, side by side."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from covpool._errors import CovpoolError, check_choice
from covpool.cli._options import Device, chosen_device
from covpool.cli._output import UNKNOWN, counting_bar, number, say

if TYPE_CHECKING:
    from covpool.bench import Record

# Named again here for the help, because importing covpool.bench takes seconds.
SUITES = (
    *("isqrt", "mpn", "operations", "pools", "decompositions", "roots", "curves"),
    *("latency", "classifier", "startup"),
)
HEADS = ("avg", "isqrt", "mpn", "cov")
TRAIN = "train"  # whole trainings, which need images


def command(
    suites: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"Suites to run: {', '.join(SUITES)}. The default is all of them. 'train' alone times whole trainings."
        ),
    ] = None,
    *,
    json: Path | None = None,
    device: Device = "",
    seconds: float = 5.0,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1)] = 0,
    model: str = "",
    batch: Annotated[list[int] | None, typer.Option(min=1)] = None,
    size: Annotated[int, typer.Option(min=1)] = 224,
    head: Annotated[
        list[str] | None,
        typer.Option(
            help=f"With --model: pools to compare, by default {', '.join(HEADS)}. Options follow the name, as in "
            "isqrt,reduce_to=128,iterations=3."
        ),
    ] = None,
    data: str = "",
    epochs: Annotated[int, typer.Option(min=2)] = 5,
    setting: list[str] | None = None,
    matmul_precision: str = "",
    plot: Path | None = None,
) -> None:
    """Measure every operation and pool, forward and backward, with its error against float64 beside the time.

    Args:
        json: Append the records to this file, one JSON object per line.
        seconds: Approximate time to measure each shape, in seconds.
        seed: Seed of the random inputs.
        model: Measure training steps of this backbone instead of the suites.
        batch: With --model: images per training step, 128 by default. Give several for a throughput curve.
        size: With --model: height and width of the images.
        data: With --model: folder with train/CLASS and test/CLASS. Measures whether reading its images keeps up with
            training. With the suite train: folder to train on.
        epochs: With the suite train: number of epochs.
        setting: With the suite train: setting of the recipe, such as init.weights=FILE. Give several times for more.
        matmul_precision: Float32 matmul precision of torch: highest, high (TF32) or medium.
        plot: Plot the records in the file of --json (suite curves, or training steps) to this image.
    """
    if not 0 < seconds < math.inf:
        raise CovpoolError(f"--seconds must be a positive number; got {seconds}")
    is_training = suites == [TRAIN]
    if is_training and not data:
        raise CovpoolError("the suite 'train' trains on images: name a folder with --data")
    if setting and not is_training:
        raise CovpoolError("--setting changes the recipe of the suite 'train': name that suite, or leave it out")
    if not model and not is_training and (data or head or batch):
        raise CovpoolError("--data, --head and --batch apply to training steps: name a backbone with --model")
    if plot is not None and json is None:
        raise CovpoolError("--plot plots the records that --json keeps: give both")
    if plot is not None and (data if model else "curves" not in (suites or SUITES)):
        raise CovpoolError("--plot plots the suite 'curves' or training steps: add one of them, or leave --plot out")
    _prepare([] if is_training else suites or [], matmul_precision, json, plot)
    import torch

    from covpool import bench
    from covpool._records import environment
    from covpool.bench import TRAINED, measure_loading, measure_model, measure_training

    place = torch.device(chosen_device(device))
    if is_training:
        records = measure_training(
            model or "torchvision/mobilenet_v2",
            data,
            place,
            batch=(batch or [64])[0],
            size=size,
            heads=head or TRAINED,
            epochs=epochs,
            settings=setting or (),
        )
    elif model and data:
        records = measure_loading(model, data, place, batch=(batch or [64])[0], size=size)
    elif model:
        records = measure_model(model, place, seconds, batches=batch or (128,), size=size, heads=head or HEADS)
    else:
        records = (record for suite in suites or SUITES for record in bench.SUITES[suite](place, seconds, seed))
    _show(records, json, environment(place, seed), Console())
    if plot is not None and json is not None:
        _plot(json, plot, throughput=bool(model))


def _prepare(suites: list[str], matmul_precision: str, json: Path | None, plot: Path | None) -> None:
    """Check what would fail after minutes of measuring, and set the precision."""
    import torch

    from covpool._records import append_lines, read_lines
    from covpool.bench import check_plot_path

    for suite in suites:
        check_choice("suite", suite, (*SUITES, TRAIN))
    if plot is not None:
        check_plot_path(plot)
    if json is not None:
        append_lines(json)
        read_lines(json)
    if matmul_precision:
        check_choice("--matmul-precision", matmul_precision, ("highest", "high", "medium"))
        torch.set_float32_matmul_precision(matmul_precision)


def _plot(json: Path, plot: Path, *, throughput: bool) -> None:
    from covpool._records import read_lines
    from covpool.bench import plot_curves, plot_throughput

    (plot_throughput if throughput else plot_curves)(read_lines(json), plot)
    say(Console(), f"plot: {plot}")


def _show(records: "Iterable[Record]", json: Path | None, where: dict[str, object], console: Console) -> None:
    """Print a table per suite and shape, as soon as it is complete, and keep every record at once."""
    say(console, f"{where['device']}, torch {where['torch']}, matmul precision {where['matmul_precision']}")
    from covpool._records import append_lines

    kept = 0

    def keep() -> "Iterator[Record]":
        nonlocal kept
        for record in records:
            kept += 1
            on_progress(f"{record.suite} {record.name} {record.shape or ''}", kept, 0)
            if json is not None:
                append_lines(json, {**asdict(record), **where})
            yield record

    with counting_bar(console, "measuring") as on_progress:
        for _, group in groupby(keep(), key=lambda record: (record.suite, record.shape)):
            _print(console, _table(list(group)))
    if json is not None:
        say(console, f"appended {kept} records to {json}")


def _table(records: "list[Record]") -> Table:
    """The table of one suite at one shape. The ratio is the time of the first row over the time of each row."""
    first = records[0]
    extra = list(dict.fromkeys(key for record in records for key in record.extra))
    limits = {key: next(r.extra[key] for r in records if key in r.extra) for key in extra if key.startswith("limit_")}
    columns = {
        "ms": [number(record.median_ms) for record in records],
        "20-80%": [f"{number(record.p20_ms)}-{number(record.p80_ms)}" for record in records],
        "ratio": [number(record.ratio, "{:.2f}x" if (record.ratio or 0) >= 0.1 else "{:.1g}x") for record in records],
        "value error": [number(record.value_error, "{:.1e}") for record in records],
        "gradient error": [number(record.gradient_error, "{:.1e}") for record in records],
        **{_words(key): [_extra(key, r.extra.get(key)) for r in records] for key in extra if key not in limits},
    }
    columns = {heading: cells for heading, cells in columns.items() if set(cells) != {UNKNOWN}}
    title = ", ".join(filter(None, (first.suite, " x ".join(map(str, first.shape)), first.passes)))
    title += "".join(f", {_words(key)} {value:.0f}" for key, value in limits.items())
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("method", min_width=10, overflow="fold")
    for heading, cells in columns.items():
        words = heading.split()
        width = max(map(len, [*words, *cells]))
        table.add_column("\n".join(words), justify="right", vertical="bottom", min_width=width, no_wrap=True)
    for record, row in zip(records, zip(*columns.values(), strict=True), strict=True):
        table.add_row(record.name, *row)
    return table


def _print(console: Console, table: Table) -> None:
    """Print a table in full: a terminal that is too narrow wraps its lines, but no number is cut."""
    needed = sum((column.min_width or 0) + 1 for column in table.columns) + 1  # with the blanks between them
    console.width = max(console.width, needed)
    console.print(table)


def _words(key: str) -> str:
    words = key.replace("_per_", "/").replace("_", " ")
    return words.replace("mib", "MiB").replace("tflops", "TFLOP/s").replace("gb/", "GB/")


def _extra(key: str, value: float | None) -> str:
    return number(value, "{:.0%}" if key.startswith("share_") else "")
