"""`covpool paper claims`: the claims of the paper, tested on frozen features."""

import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from covpool._errors import CovpoolError
from covpool.cli._options import Device, chosen_device, named_folder, read_data
from covpool.cli._output import counting_bar, say
from covpool.cli._scoreboard import choose_claims, show_claims

if TYPE_CHECKING:
    from covpool.studies.claims import Arm, Claim, Subject

WORKERS = 8  # processes that read images, at most


def claims_command(
    numbers: list[int] | None = None,
    *,
    run: bool = False,
    data: Annotated[list[str] | None, typer.Option(metavar="NAME=FOLDER")] = None,
    weights: str = "",
    seconds: float = 600.0,
    records: Path | None = None,
    json: bool = False,
    page: Path | None = None,
    plots: Path | None = None,
    device: Device = "",
) -> None:
    """Show which claims of the paper (1 to 19), and of our own (21 to 25), hold on frozen features.

    The verdicts come from recorded experiments.

    Examples: covpool paper claims; covpool paper claims 4 (its comparisons); covpool paper claims --run --data
    cub200=FOLDER --weights FILE --records mine (runs what has no record yet; repeat the command to continue).

    Args:
        numbers: Numbers of claims. The default is all.
        run: Run the experiments without a record, most important first, and append their records.
        data: Data set to run on and its folder, as in cub200=/data/cub. Can be given several times.
        weights: File with the weights of MobileNetV2. The default downloads them.
        seconds: Time after which no experiment begins.
        records: Folder of the records. The default is that of the records that come with covpool; --run needs one.
        json: Print the scoreboard as JSON.
        page: Update the tables of this Markdown page from the records.
        plots: Draw the plots into this folder.
    """
    from covpool.studies import claims

    chosen = choose_claims(numbers, claims.CLAIMS)
    console = Console()
    if run:
        _run(chosen, data or [], weights, seconds, records, device, console)
    elif data or weights:
        raise CovpoolError("--data and --weights are for --run; without it, records are shown: add --run")
    results = claims.read_claims(records or claims.records_folder())
    rows = claims.scoreboard(results, chosen)
    if page is not None:
        page.write_text(claims.update_page(page.read_text(), claims.make_page(claims.scoreboard(results), results)))
    if plots is not None:
        claims.plot_claims(results, plots)
    show_claims(rows, list(results), "covpool paper claims NUMBER", console, each=bool(numbers), as_json=json)
    if not json and not numbers:
        for name, known in results.items():
            missing = len(claims.plan(chosen, known))
            pace = median(one.seconds for one in known.values())
            left = f"{missing} experiments without a record, about {missing * pace:.0f} s at the recorded pace"
            say(console, f"{name}: {left}")


def _run(
    claims: "list[Claim[Arm]]", data: list[str], weights: str, seconds: float, records: Path | None, device: str,
    console: Console,
) -> None:  # fmt: skip
    import torch

    from covpool._records import environment
    from covpool.studies.claims import Recorder, run_missing

    if records is None or not data:
        raise CovpoolError("--run needs --records FOLDER and --data NAME=FOLDER, as in --data cub200=/data/cub")
    place = torch.device(chosen_device(device))
    subjects = [_subject(asked, weights) for asked in data]
    end = time.monotonic() + seconds
    tell, counting = partial(say, console), partial(counting_bar, console)
    run_missing(Recorder(records, environment(place, 0), end, tell, counting), subjects, claims, place)


def _subject(asked: str, weights: str) -> "Subject":
    from covpool._cores import usable_cores
    from covpool.studies.claims import Subject

    name, folder = named_folder(asked)
    return Subject(name, read_data(folder, workers=min(WORKERS, usable_cores())), weights=weights)
