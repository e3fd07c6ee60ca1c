"""`covpool paper trained`: the claims of the paper, tested on trained networks."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from covpool._errors import CovpoolError
from covpool.cli._fabric import import_fabric
from covpool.cli._output import counting_bar, say
from covpool.cli._scoreboard import choose_claims, named_folder, show_claims, show_search

if TYPE_CHECKING:
    from covpool.studies.trained import TrainedArm, TrainingData


def trained_command(
    numbers: list[int] | None = None,
    *,
    run: bool = False,
    search: bool = False,
    data: Annotated[list[str] | None, typer.Option(metavar="NAME=FOLDER")] = None,
    weights: str = "",
    setting: list[str] | None = None,
    at_once: Annotated[int, typer.Option(min=1)] = 4,
    seconds: float = 600.0,
    records: Path | None = None,
    runs: Path = Path("runs", "trained"),
    json: bool = False,
    page: Path | None = None,
) -> None:
    """Show which claims of the paper hold for fine-tuned networks, by recorded trainings.

    Examples: covpool paper trained; covpool paper trained 11 (its comparisons); covpool paper trained --run --data
    cub200=FOLDER --weights FILE --setting data.cache=gpu --records mine (runs the trainings without a record; repeat
    the command to continue).

    Args:
        numbers: Numbers of claims. The default is all.
        run: Run the trainings without a record, most important first, and append their records.
        search: Run or show the trainings that choose the settings of fine-tuning, on held-out training images.
        data: Data set to train on and its folder, as in cub200=/data/cub. Can be given several times.
        weights: File with the weights of MobileNetV2. The default downloads them.
        setting: Further setting for every training, such as data.cache=gpu. Can be given several times.
        at_once: Number of trainings that run at the same time on one device.
        seconds: Time in seconds after which no further training begins.
        records: Folder of the records. The default is the folder that comes with covpool. Required with --run.
        runs: Folder of the runs. Interrupted trainings are resumed from it.
        json: Print the scoreboard and the comparisons as JSON.
        page: Update the tables of this Markdown page from the records.
    """
    import_fabric()
    from covpool.studies import trained
    from covpool.studies.claims import plan, read_claims, records_folder, scoreboard, update_page

    chosen = choose_claims(numbers, trained.CLAIMS)
    console = Console()
    pattern = trained.SEARCH_PATTERN if search else trained.PATTERN
    if run:
        if records is None or not data:
            raise CovpoolError("--run needs --records FOLDER and --data NAME=FOLDER, as in --data cub200=/data/cub")
        for asked in data:
            one = trained.TrainingData(*named_folder(asked), weights=weights, settings=tuple(setting or ()))
            known = read_claims(records, pattern).get(one.name, {})
            arms = [arm for arm in trained.TRIED if arm.name not in known] if search else plan(chosen, known)
            path = records / pattern.replace("*", one.name.replace("-", ""))
            _run(arms, trained.held_out(one) if search else one, path, runs, at_once, seconds, console)
    elif data or weights or setting:
        raise CovpoolError("--data, --weights and --setting are for --run; without it, records are shown: add --run")
    results = read_claims(records or records_folder(), pattern)
    if search:
        for name, found in results.items():
            show_search(name, trained.best_first(found), console)
        return
    rows = scoreboard(results, chosen)
    if page is not None:
        searched = read_claims(records or records_folder(), trained.SEARCH_PATTERN)
        made = trained.make_page(scoreboard(results, trained.CLAIMS), results, searched)
        page.write_text(update_page(page.read_text(), made))
    show_claims(rows, list(results), "covpool paper trained NUMBER", console, each=bool(numbers), as_json=json)
    if not json and not numbers:
        for name, known in results.items():
            missing = plan(chosen, known)
            left = f"{len(missing)} trainings without a record, about {trained.minutes(missing):.0f} minutes of an H200"
            say(console, f"{name}: {left}")


def _run(
    arms: "Sequence[TrainedArm]", data: "TrainingData", path: Path, runs: Path, at_once: int, seconds: float,
    console: Console,
) -> None:  # fmt: skip
    import torch

    from covpool.bench import append_lines, environment
    from covpool.studies.trained import train_arms

    path.parent.mkdir(parents=True, exist_ok=True)
    where, done = environment(torch.device("cuda" if torch.cuda.is_available() else "cpu"), 0), 0
    del where["seed"]  # that of a training is in the name of its arm

    def failed(arm: "TrainedArm", error: Exception) -> None:
        say(console, f"{arm.name}: {error}")

    with counting_bar(console, data.name) as on_progress:
        on_progress(data.name, done, len(arms))
        for result in train_arms(data, arms, runs, at_once=at_once, seconds=seconds, on_failure=failed):
            done += 1
            on_progress(f"{data.name}, {result.arm}", done, len(arms))
            append_lines(path, {**where, **result.as_json()})
            say(console, f"{result.arm}: {100 * result.top1:.1f} %, {result.seconds:.0f} s")
    say(console, f"{data.name}: {done} of {len(arms)} missing trainings done; records: {path}")
