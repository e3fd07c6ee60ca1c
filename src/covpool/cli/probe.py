"""`covpool probe`: compare pools on the same frozen features."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from covpool._errors import require
from covpool.cli._options import DataFolder, Device, chosen_device, data_overrides
from covpool.cli._output import UNKNOWN, counting_bar, make_folder, number, percent_interval, say, table

if TYPE_CHECKING:
    import torch

    from covpool.studies.probe import PoolSummary, Probe, ProbeResult

SECONDS = 0.3  # time spent on measuring the costs of one pool


def command(
    settings: list[str] | None = None,
    *,
    data: DataFolder = "",
    json: Path | None = None,
    plot: Path | None = None,
    markdown: Path | None = None,
    device: Device = "",
) -> None:
    """Compare pools on frozen features: compute the feature maps of a backbone once, then fit every pool to them.

    All pools follow one protocol: channels reduced to principal axes, and logistic regression with a cross-validated
    penalty. Pools with random weights are fitted with three seeds. classifier=sgd trains reduction, pool and classifier
    instead.

    Args:
        settings: Settings: key=value, as in backbone=resnet50 weights=FILE pools=\\[avg,isqrt].
        json: Append each result to this file. Results that it contains already are not computed again.
        plot: Plot accuracy against cost to this image file.
        markdown: Write the table to this file as Markdown.
    """
    import torch

    require("torchvision", "models")
    from covpool._records import append_lines, environment
    from covpool.bench import check_plot_path
    from covpool.studies.probe import plot_probe, probe, read_probe, read_results, recommended, summarize

    chosen = read_probe([*(settings or []), *data_overrides(data)])
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
                append_lines(json, {**where, **run.as_json()})
    rows = summarize(runs)
    title = f"{chosen.backbone} on {Path(chosen.data.root).name}, {where['device']}"
    say(console, title)
    console.print(_table(rows))
    say(console, _remarks(rows, runs, known))
    if markdown is not None:
        make_folder(markdown).write_text(_markdown(title, rows))
        say(console, f"table: {markdown}")
    if plot is not None:
        plot_probe(rows, make_folder(plot), title)
        say(console, f"plot: {plot}")
    winner = recommended(rows)
    if winner is not None:
        say(console, _next_steps(chosen, winner))


def _costs(call: Callable[[], None], device: "torch.device") -> dict[str, float | None]:
    from covpool.bench import busy_time, peak_memory, time_interleaved

    timing = time_interleaved({"step": call}, device, SECONDS)["step"]
    return {
        "ms_per_batch": timing.median,
        "busy_ms_per_batch": busy_time(call, device),
        "peak_mib": peak_memory(call, device),
    }


HEADINGS = (
    *("pool", "top-1 %", "95 % interval", "minus avg", "minus the best", "held out %", "channels", "vector"),
    *("ms per image", "GPU busy ms per image", "peak MiB", "parameters", "fit s", "penalty", "lr", "remarks"),
)
ONLY_MARKDOWN = (
    *("95 % interval", "minus the best", "channels", "GPU busy ms per image", "peak MiB", "parameters"),
    *("penalty", "lr", "remarks"),
)


def _cells(row: "PoolSummary") -> list[str]:
    if row.group == "failed":
        return [row.pool, *[UNKNOWN] * (len(HEADINGS) - 2), f"failed: {row.note}"]
    first, compared = row.results[0], row.group != "diverged"
    return [
        row.pool,
        f"{100 * row.top1:.1f}",
        percent_interval(row.interval),
        percent_interval(row.to_reference, "{:+.1f}") if row.to_reference and any(row.to_reference) else UNKNOWN,
        percent_interval(row.to_best, "{:+.1f}") if compared else UNKNOWN,
        number(row.held_out and 100 * row.held_out, "{:.1f}"),
        str(first.channels or UNKNOWN),
        str(first.size),
        number(row.cost_per_image("ms_per_batch"), "{:.3g}"),
        number(row.cost_per_image("busy_ms_per_batch"), "{:.3g}"),
        number(row.cost("peak_mib"), "{:.0f}"),
        str(first.pool_parameters + first.classifier_parameters),
        f"{row.seconds:.1f}",
        number(first.penalty or None, "{:g}"),
        number(first.lr or None, "{:g}"),
        row.note,
    ]


def _table(rows: "list[PoolSummary]") -> Table:
    """The columns that fit into a terminal; those without values are left out."""
    cells = [_cells(row) for row in rows]
    shown = [i for i, heading in enumerate(HEADINGS) if heading not in ONLY_MARKDOWN]
    shown = [i for i in shown if any(line[i] not in ("", UNKNOWN) for line in cells)]
    return table([HEADINGS[i] for i in shown], [[line[i] for i in shown] for line in cells])


def _markdown(title: str, rows: "list[PoolSummary]") -> str:
    text = [f"{title}.", "", f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}"]
    text += [f"| {' | '.join(cell.replace('|', '/') for cell in _cells(row))} |" for row in rows]
    return "\n".join(text) + "\n"


def _remarks(rows: "list[PoolSummary]", runs: "list[ProbeResult]", known: "list[ProbeResult]") -> str:
    from covpool.studies.probe import GROUPS

    best = ", ".join(row.pool for row in rows if row.group == "best")
    notes = "".join(f"{row.pool}: {'failed: ' * (row.group == 'failed')}{row.note}\n" for row in rows if row.note)
    reused = sum(run in known for run in runs)
    images = max((run.images for run in runs), default=0)
    taken = f"; {reused} of {len(runs)} results come from the file" if reused else ""
    return f"{notes}{images} test images; intervals are 95 %{taken}\n{GROUPS['best']}: {best or 'none'}"


def _next_steps(chosen: "Probe", winner: "PoolSummary") -> str:
    """Return the commands that use the pool with the highest accuracy on held-out training images.

    `covpool fit` takes no pool that gives scores.
    """
    from covpool.pools import pool_info

    data = f"data.name={chosen.data.name}" * (chosen.data.name != "folder")
    weights = f"weights={chosen.weights}" if chosen.weights else f"pretrained={chosen.uses_pretrained}".lower()
    size = f"size={chosen.size}" * bool(chosen.size)
    width = f"width={chosen.reduce_to}" * ("reduce_to" in chosen.model_fields_set and chosen.reduce_to > 0)
    fit = ["covpool fit", chosen.data.root, data, f"backbone={chosen.backbone}", weights, size, width]
    fit += [f"pool={winner.pool}"]
    name, *options = winner.pool.split(":")
    pool = [f"pool.name={name}", *(f"pool.{option}" for option in options)]
    train = ["covpool train finetune", f"data.root={chosen.data.root}", data, f"model.backbone={chosen.backbone}"]
    train += [f"init.{weights}" * bool(weights), *pool]
    steps = [train] if "num_classes" in pool_info(name).options else [fit, train]
    commands = "\n".join(f"  {' '.join(part for part in parts if part)}" for parts in steps)
    return f"next, with the pool that is best on held-out training images ({winner.pool}):\n{commands}"
