"""`covpool paper claims`: the claims of the paper, tested on frozen features."""

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from covpool._errors import CovpoolError
from covpool.cli._options import Device, chosen_device, read_data
from covpool.cli._output import counting_bar, make_folder, say
from covpool.cli._scoreboard import choose_claims, named_folder, show_claims

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
        claims.plot_claims(results, make_folder(plots / "x").parent)
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
    import time

    import torch

    from covpool.bench import append_lines, environment
    from covpool.studies.claims import CLAIMS, Runner, Views, plan, read_claims, run_arms

    if records is None or not data:
        raise CovpoolError("--run needs --records FOLDER and --data NAME=FOLDER, as in --data cub200=/data/cub")
    place = torch.device(chosen_device(device))
    where = environment(place, 0)
    subjects = [_subject(asked, weights) for asked in data]
    records.mkdir(parents=True, exist_ok=True)
    calibrated = frozenset(
        arm.name for claim in CLAIMS for one in claim.comparisons if one.measure == "calibration" for arm in one.arms
    )
    begin = time.monotonic()

    def failed(arm: "Arm", error: Exception) -> None:
        say(console, f"{arm.name}: failed: {type(error).__name__}: {error}")

    for subject in subjects:
        arms = plan(claims, read_claims(records).get(subject.name, {}))
        path = records / f"claims_{subject.name.replace('-', '')}.jsonl"
        done = 0
        with counting_bar(console, f"{subject.name}") as on_progress:
            if arms:
                runner = Runner(Views(subject, place, on_progress), calibrated)
                for result in run_arms(runner, arms, seconds - (time.monotonic() - begin), failed):
                    done += 1
                    on_progress(f"{subject.name}, {result.arm}", done, len(arms))
                    append_lines(path, {**where, **result.as_json()})
                    say(console, f"{result.arm}: {100 * result.top1:.1f} %, {result.seconds:.1f} s")
        say(console, f"{subject.name}: {done} of {len(arms)} missing experiments done; records: {path}")


def _subject(asked: str, weights: str) -> "Subject":
    from covpool._cores import usable_cores
    from covpool.studies.claims import Subject

    name, folder = named_folder(asked)
    return Subject(name, read_data(folder, workers=min(WORKERS, usable_cores())), weights=weights)
