"""`covpool fit`: a pool and a linear classifier on frozen features."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from covpool._errors import check_utf8, require
from covpool.cli._collector import uncollected
from covpool.cli._fabric import import_fabric
from covpool.cli._options import Device, chosen_device, split_data
from covpool.cli._output import counting_bar, next_command, percent_interval, say, table, write_run_report

if TYPE_CHECKING:
    from covpool.studies.fit import FitResult

CLASSES_SHOWN = 10


def command(
    folder: str,
    settings: list[str] | None = None,
    *,
    out: str = "",
    report: bool = True,
    device: Device = "",
) -> None:
    """Fit a linear classifier to the frozen, pooled features of a pre-trained backbone, without training the backbone.

    Pool, image size and tap are chosen by cross-validation inside the training images, unless you name them. The result
    is a checkpoint for predict, eval, export and train (init.weights=...).

    Args:
        folder: Folder with train/CLASS and test/CLASS, or with CLASS folders, which are split at random. NAME:FOLDER
            for other layouts, as in cub:/data/CUB_200_2011.
        settings: Settings: key=value, as in backbone=resnet50 pool=isqrt size=320 weights=FILE.
        out: Folder of the results. The default is runs/fit-NAME.
        report: Write report.html at the end.
    """
    check_utf8("the folder of the results", out)
    with uncollected():
        require("torchvision", "models")
        import_fabric()
        from covpool.studies.fit import read_fit, run_fit

    name, root = split_data(folder)
    given = [f"data.name={name}"] * bool(name) + [f"out={out}"] * bool(out)
    chosen = read_fit(root, [*(settings or []), *given])
    if device:
        chosen = chosen.changed(device=chosen_device(device))
    console = Console()
    with counting_bar(console, "reading") as on_progress:
        result = run_fit(chosen, on_progress=on_progress, on_note=lambda note: say(console, note))
    _show(result, console)
    say(console, f"checkpoint: {result.checkpoint}")
    if report:
        write_run_report(result.checkpoint.parent, console)
    say(console, next_command(result.checkpoint))


def _show(result: "FitResult", console: Console) -> None:
    if len(result.table) > 1:
        console.print(_candidates(result))
    found, chosen = result.evaluation, result.chosen.candidate
    tap = f"block {chosen.level}" if chosen.level else "last features"
    say(console, f"chosen: {chosen.pool} at {chosen.size} px, {tap}; penalty {result.chosen.penalty:g}")
    if not result.chosen.converged:
        say(console, "the classifier did not converge")
    worst = [(row.name, str(row.images), f"{row.top1:.1%}") for row in found.by_class[:CLASSES_SHOWN]]
    console.print(table(("class", "test images", "accuracy"), worst, title=f"the {len(worst)} worst classes"))
    interval = percent_interval(result.interval)
    skipped = f"; {found.unread} skipped" if found.unread else ""
    say(
        console,
        f"test accuracy {100 * result.accuracy:.1f} %, 95 % interval {interval}; {found.images} test images{skipped}; "
        f"{result.seconds:.0f} s",
    )


def _candidates(result: "FitResult") -> Table:
    rows = []
    for trial in sorted(result.table, key=lambda trial: -trial.accuracy):
        found = trial.candidate
        rows.append(
            (
                found.pool,
                found.level or "last",
                str(found.size),
                f"{trial.length:,}",
                f"{100 * trial.accuracy:.1f} ± {100 * trial.standard_error:.1f}",
                f"{trial.seconds:.1f}",
                "chosen" if found == result.chosen.candidate else "",
            )
        )
    headings = ("pool", "level", "size", "vector", "accuracy, %", "seconds", "")
    caption = (
        "accuracy on held-out training images ± one standard error; the simplest candidate within one standard error "
        "of the best one is chosen"
    )
    return table(headings, rows, left=2, title="candidates", caption=caption)
