"""`covpool probe`: compare pools on the same frozen features."""

import json as json_format
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from covpool.cli._bars import counting_bar
from covpool.cli._options import Device, chosen_device, split_data
from covpool.cli._output import UNKNOWN, make_folder, number, percent_interval, say, table

if TYPE_CHECKING:
    import torch

    from covpool.studies.probe import PoolSummary, ProbeResult

SECONDS = 0.3  # time spent on measuring the costs of one pool


def command(
    settings: Annotated[
        list[str] | None,
        typer.Argument(help="Settings: key=value, as in backbone=resnet50 weights=FILE pools=\\[avg,isqrt]."),
    ] = None,
    data: Annotated[str, typer.Option(help="Folder of the data set, or NAME:FOLDER as in cub:/data/cub.")] = "",
    json: Annotated[
        Path | None,
        typer.Option(help="Append each result to this file. Results that it contains already are not computed again."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Plot the accuracies to this image file.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the table to this file as Markdown.")] = None,
    device: Device = "",
) -> None:
    """Compare pools on frozen features: compute the feature maps of a backbone once, then train every pool on them.

    All pools follow one protocol: SGD with a cosine schedule, the learning rate chosen on held-out training images.
    """
    import torch

    from covpool._check import require

    require("torchvision", "models")
    from covpool.bench import check_plot_path, environment
    from covpool.studies.probe import plot_probe, probe, read_probe, read_results, summarize

    name, root = split_data(data)
    given = [f"data.root={root}"] * bool(root) + [f"data.name={name}"] * bool(name)
    chosen = read_probe([*(settings or []), *given])
    if plot is not None:
        check_plot_path(plot)
    place = torch.device(chosen_device(device))
    known = read_results(json) if json is not None else []
    where = environment(place, 0)
    console = Console()
    runs: list[ProbeResult] = []
    with counting_bar(console, "reading") as on_progress:
        for run in probe(chosen, device=place, known=known, measure=_costs, on_progress=on_progress):
            runs.append(run)
            if json is not None and run not in known:
                _append(json, {**where, **run.as_json()})
    rows = summarize(runs)
    channels = f"{chosen.reduce_to or 'all'} channels"
    title = f"{chosen.backbone} on {Path(chosen.data.root).name}, {channels}, {where['device']}"
    say(console, title)
    console.print(*_tables(rows), sep="\n")
    say(console, _remarks(runs, known))
    if markdown is not None:
        make_folder(markdown).write_text(_markdown(title, rows))
        say(console, f"table: {markdown}")
    if plot is not None:
        plot_probe(rows, make_folder(plot), title)
        say(console, f"plot: {plot}")


def _costs(call: Callable[[], None], device: "torch.device") -> dict[str, float | None]:
    from covpool.bench import busy_time, peak_memory, time_interleaved

    timing = time_interleaved({"step": call}, device, SECONDS)["step"]
    return {
        "ms_per_batch": timing.median,
        "busy_ms_per_batch": busy_time(call, device),
        "peak_mib": peak_memory(call, device),
    }


def _append(path: Path, line: dict[str, Any]) -> None:
    with make_folder(path).open("a") as file:
        file.write(json_format.dumps(line) + "\n")


HEADINGS = (
    *("pool", "top-1 %", "minus the best", "minus avg", "size", "parameters: pool + classifier"),
    *("ms/image", "GPU busy ms/image", "peak MiB", "training s", "lr", "remarks"),
)


def _cells(row: "PoolSummary") -> list[str]:
    if row.group == "failed":
        return [row.pool, *[UNKNOWN] * (len(HEADINGS) - 2), row.note]
    first, compared = row.results[0], row.group != "diverged"
    return [
        row.pool,
        f"{100 * row.top1:.1f} ({percent_interval(row.interval)})",
        percent_interval(row.to_best, "{:+.1f}") if compared else UNKNOWN,
        percent_interval(row.to_reference, "{:+.1f}") if row.to_reference else UNKNOWN,
        str(first.size),
        f"{first.pool_parameters} + {first.classifier_parameters}",
        number(_per_image(row, "ms_per_batch"), "{:.3g}"),
        number(_per_image(row, "busy_ms_per_batch"), "{:.3g}"),
        number(row.cost("peak_mib"), "{:.0f}"),
        f"{row.seconds:.1f}",
        f"{first.lr:g}",
        row.note,
    ]


def _tables(rows: "list[PoolSummary]") -> Iterator[Table]:
    """One table per group, without ranking inside it. Empty columns are left out to fit into a terminal."""
    cells = {row.pool: _cells(row) for row in rows}
    shown = [i for i in range(len(HEADINGS)) if any(line[i] not in ("", UNKNOWN) for line in cells.values())]
    for heading, members in _groups(rows):
        lines = [[cells[row.pool][i] for i in shown] for row in members]
        made = table([HEADINGS[i] for i in shown], lines, title=heading)
        made.title_justify = "left"
        made.columns[-1].justify = "left" if HEADINGS[shown[-1]] == "remarks" else "right"
        yield made


def _markdown(title: str, rows: "list[PoolSummary]") -> str:
    text = [f"{title}.", "", f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}"]
    for heading, members in _groups(rows):
        text.append(f"| **{heading}** |{' |' * (len(HEADINGS) - 1)}")
        text += [f"| {' | '.join(cell.replace('|', '/') for cell in _cells(row))} |" for row in members]
    return "\n".join(text) + "\n"


def _groups(rows: "list[PoolSummary]") -> "Iterator[tuple[str, list[PoolSummary]]]":
    from covpool.studies.probe import GROUPS

    for group, members in groupby(rows, key=lambda row: row.group):
        yield GROUPS[group], list(members)


def _remarks(runs: "list[ProbeResult]", known: "list[ProbeResult]") -> str:
    reused = sum(run in known for run in runs)
    images = max((run.images for run in runs), default=0)
    taken = f"; {reused} of {len(runs)} results come from the file" if reused else ""
    return f"{images} test images; pools in a group are ordered by representation size, not ranked{taken}"


def _per_image(row: "PoolSummary", cost: str) -> float | None:
    batch = row.cost(cost)
    return None if batch is None else batch / row.results[0].batch_size
