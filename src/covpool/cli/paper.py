"""`covpool paper`: the paper's tables and figures made again, and its claims with verdicts."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from covpool.cli._claims import claims_command
from covpool.cli._errors import readable_errors
from covpool.cli._help import with_help
from covpool.cli._options import Device
from covpool.cli._paper_items import Wanted, make_item, show_items

app = typer.Typer(no_args_is_help=True)

Roots = Annotated[list[str] | None, typer.Option(metavar="NAME=FOLDER")]
RUNS = Path("runs")


@app.callback(invoke_without_command=True)
@readable_errors
def before_command(
    context: typer.Context,
    show_list: Annotated[bool, typer.Option("--list", help="List the tables and figures, and what is done.")] = False,
    runs: Annotated[Path, typer.Option(help="With --list: folder of the runs.")] = RUNS,
) -> None:
    """Make the tables and figures of the paper again, with its numbers beside ours."""
    if context.invoked_subcommand is None and show_list:
        show_items(runs)


def _item_command(kind: str) -> Callable[..., None]:
    def make(
        number: str,
        settings: list[str] | None = None,
        *,
        data: Roots = None,
        out: Path = RUNS,
        measure: bool = False,
        seconds: float = 5.0,
        dry_run: bool = False,
        device: Device = "",
    ) -> None:
        """Make a KIND of the paper: run its trainings, and print its numbers beside ours. A second call resumes it.

        Without data, it prints what is done. Pre-training on ImageNet is part of the trainings that start from it.

        The numbers of a figure are also plotted, in the paper's axes.

        Example: covpool paper table 8 --data imagenet=/data/imagenet --data cub=/data/CUB_200_2011

        Example: covpool paper figure 6a data.root=/data/imagenet

        Args:
            number: Number of the KIND. Tables are 1 to 15; figures, with their panels, are 6a, 6b, 6c, 7 and 8.
            settings: Settings for all trainings: table.key=value. data.root=FOLDER names the only data set of a KIND.
            data: Folder of a data set, as in cub=/data/CUB_200_2011. Trainings without their data are not run.
            out: Folder of the runs. A finished run NAME of `covpool train` in it counts.
            measure: Measure times and memory on this machine for what shows them.
            seconds: Approximate time of each measurement, in seconds.
            dry_run: Print the command of each training that is missing, without training.
        """
        wanted = Wanted(
            settings=settings or [],
            data=data or [],
            out=out,
            measure=measure,
            seconds=seconds,
            dry_run=dry_run,
            device=device,
        )
        make_item(f"{kind} {number}", wanted)

    make.__doc__ = (make.__doc__ or "").replace("KIND", kind)
    return make


SUBCOMMANDS: dict[str, Callable[..., None]] = {
    "table": _item_command("table"),
    "figure": _item_command("figure"),
    "claims": claims_command,
}
for name, command in SUBCOMMANDS.items():
    app.command(name)(with_help(readable_errors(command)))
