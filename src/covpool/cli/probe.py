"""`covpool probe`: every pool on the same frozen features."""

import json as json_format
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from covpool._check import require
from covpool.bench import busy_time, check_picture, environment, peak_memory, time_in_turns
from covpool.cli.data_option import split_data
from covpool.cli.device_option import chosen_device
from covpool.cli.output import make_folder

if TYPE_CHECKING:
    from covpool.studies.probe import Row, Run

SECONDS = 0.3  # about how long the costs of one pool are measured


def probe_command(
    settings: Annotated[
        list[str] | None, typer.Argument(help="key=value, as in backbone=resnet50 weights=FILE pools=\\[avg,isqrt]")
    ] = None,
    data: Annotated[str, typer.Option(help="the folder of the data set, or NAME:FOLDER as in cub:/data/cub")] = "",
    json: Annotated[
        Path | None, typer.Option(help="append each result to this file; what is there already is not made again")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="draw the accuracies into this picture")] = None,
    markdown: Annotated[Path | None, typer.Option(help="write the table to this file as Markdown")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda; the GPU if there is one")] = "",
) -> None:
    """Compare pools on frozen features: the backbone's feature maps are computed once, then every pool is trained.

    The same protocol for all: SGD, cosine, the learning rate of each pool chosen on held-out training images.
    """
    name, root = split_data(data)
    given = [f"data.root={root}"] * bool(root) + [f"data.name={name}"] * bool(name)
    require("torchvision", "models")
    from covpool.studies.probe import probe, read_probe, read_runs, summarize

    chosen = read_probe([*(settings or []), *given])
    if plot is not None:
        check_picture(plot)
    place = torch.device(chosen_device(device))
    known = read_runs(json) if json is not None else []
    where = environment(place, 0)
    console = Console()
    runs: list[Run] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=None)

        def tell(what: str, done: int, of: int) -> None:
            bar.update(task, description=what, completed=done, total=of)

        for run in probe(chosen, device=place, known=known, measure=_costs, on_progress=tell):
            runs.append(run)
            if json is not None and run not in known:
                make_folder(json)
                with json.open("a") as file:
                    file.write(json_format.dumps({**where, **run.as_json()}) + "\n")
    rows = summarize(runs)
    title = (
        f"{chosen.backbone} on {Path(chosen.data.root).name}, {chosen.reduce_to or 'all'} channels, {where['device']}"
    )
    console.print(escape(title), *_tables(rows), sep="\n", highlight=False)
    console.print(_remarks(runs, known), highlight=False)
    if markdown is not None:
        make_folder(markdown)
        markdown.write_text(_markdown(title, rows))
        console.print(f"table: {markdown}", markup=False, highlight=False, soft_wrap=True)
    if plot is not None:
        from covpool.studies.probe import plot_probe

        make_folder(plot)
        plot_probe(rows, plot, title)
        console.print(f"plot: {plot}", markup=False, highlight=False, soft_wrap=True)


def _costs(call: Callable[[], None], device: torch.device) -> dict[str, float | None]:
    timing = time_in_turns({"step": call}, device, SECONDS)["step"]
    return {
        "ms_per_batch": timing.median,
        "busy_ms_per_batch": busy_time(call, device),
        "peak_mib": peak_memory(call, device),
    }


HEADINGS = (
    "pool",
    "top-1 %",
    "minus the best",
    "minus avg",
    "size",
    "parameters: pool + classifier",
    "ms/image",
    "of it busy",
    "peak MiB",
    "training s",
    "lr",
    "remarks",
)


def _cells(row: "Row") -> list[str]:
    if row.group == "failed":
        return [row.pool, *["-"] * (len(HEADINGS) - 2), row.note]
    first, compared = row.runs[0], row.group != "diverged"
    return [
        row.pool,
        f"{100 * row.top1:.1f} ({_percent(row.interval, '{:.1f}')})",
        _percent(row.to_best, "{:+.1f}") if compared else "-",
        _percent(row.to_reference, "{:+.1f}") if row.to_reference else "-",
        str(first.size),
        f"{first.pool_parameters} + {first.classifier_parameters}",
        _number(_per_image(row, "ms_per_batch"), "{:.3g}"),
        _number(_per_image(row, "busy_ms_per_batch"), "{:.3g}"),
        _number(row.cost("peak_mib"), "{:.0f}"),
        f"{row.seconds:.1f}",
        f"{first.lr:g}",
        row.note,
    ]


def _tables(rows: "list[Row]") -> Iterator[Table]:
    """One per group: nothing is ranked within. Columns that say nothing are left out, to fit into a terminal."""
    cells = {row.pool: _cells(row) for row in rows}
    shown = [i for i in range(len(HEADINGS)) if any(line[i] not in ("", "-") for line in cells.values())]
    for heading, members in _groups(rows):
        table = Table(title=heading, title_justify="left")
        for column in (HEADINGS[i] for i in shown):
            table.add_column(column, justify="left" if column in ("pool", "remarks") else "right", overflow="fold")
        for row in members:
            table.add_row(*(escape(cells[row.pool][i]) for i in shown))
        yield table


def _markdown(title: str, rows: "list[Row]") -> str:
    text = [f"{title}.", "", f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}"]
    for heading, members in _groups(rows):
        text.append(f"| **{heading}** |{' |' * (len(HEADINGS) - 1)}")
        text += [f"| {' | '.join(cell.replace('|', '/') for cell in _cells(row))} |" for row in members]
    return "\n".join(text) + "\n"


def _groups(rows: "list[Row]") -> "Iterator[tuple[str, list[Row]]]":
    from covpool.studies.probe import GROUPS

    for group, members in groupby(rows, key=lambda row: row.group):
        yield GROUPS[group], list(members)


def _remarks(runs: "list[Run]", known: "list[Run]") -> str:
    reused = sum(run in known for run in runs)
    images = max((run.images for run in runs), default=0)
    taken = f"; {reused} of {len(runs)} results were in the file already" if reused else ""
    return f"{images} test images; within a group the order is that of the representation size, no ranking{taken}"


def _per_image(row: "Row", cost: str) -> float | None:
    batch = row.cost(cost)
    return None if batch is None else batch / row.runs[0].batch_size


def _percent(interval: tuple[float, float], pattern: str) -> str:
    return " to ".join(pattern.format(100 * bound) for bound in interval)


def _number(value: float | None, pattern: str) -> str:
    return "-" if value is None else pattern.format(value)
