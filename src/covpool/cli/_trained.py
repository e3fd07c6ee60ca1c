"""`covpool paper trained`: the claims of the paper, tested on trained networks."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from covpool._errors import CovpoolError
from covpool.cli._fabric import import_fabric
from covpool.cli._options import named_folder, read_data
from covpool.cli._output import counting_bar, say
from covpool.cli._scoreboard import choose_claims, show_claims, show_search

if TYPE_CHECKING:
    from covpool.studies.claims import Results
    from covpool.studies.trained import TrainingData

# Settings that do not change what is learned. Records are named after all others.
FOR_ALL = ("data.cache=", "data.workers=", "data.broken=", "devices.")


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
    """Show which claims of the paper hold for trained networks, by recorded trainings and measurements.

    Networks are fine-tuned on cub200 and trained from scratch on tiny-imagenet-100; each claim is tested on one of
    them.
    Examples: covpool paper trained; covpool paper trained 11 (its comparisons); covpool paper trained --run --data
    cub200=FOLDER --data tiny-imagenet-100=FOLDER --weights FILE --setting data.cache=gpu --records mine (runs the
    trainings without a record; repeat the command to continue).

    Args:
        numbers: Numbers of claims. The default is all.
        run: Run the trainings without a record, most important first, and append their records.
        search: Run or show the search: trainings with other settings, scored on held-out training images.
        data: Data set to train on and its folder, as in cub200=/data/cub. Can be given several times.
        weights: File with the weights of MobileNetV2. The default downloads them.
        setting: Setting of data.cache, data.workers, data.broken or devices for every training, such as data.cache=gpu.
            Can be given several times.
        at_once: Number of trainings that run at the same time on one device.
        seconds: Time in seconds after which no further training begins.
        records: Folder of the records. The default is the folder that comes with covpool. Required with --run.
        runs: Folder of the runs. Interrupted trainings are resumed from it.
        json: Print the scoreboard and the comparisons as JSON.
        page: Update the tables of this Markdown page from the records.
    """
    import_fabric()
    import torch

    from covpool._records import environment
    from covpool.studies import trained
    from covpool.studies.claims import Recorder, records_folder, update_page

    chosen, console = choose_claims(numbers, trained.ALL_CLAIMS), Console()
    if search and (numbers or json or page):
        raise CovpoolError("--search shows and runs all trainings of the search; leave out numbers, --json and --page")
    recorder = None
    if run:
        if records is None or not data:
            raise CovpoolError("--run needs --records FOLDER and --data NAME=FOLDER, as in --data cub200=/data/cub")
        where = environment(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
        tell, counting = partial(say, console), partial(counting_bar, console)
        recorder = Recorder(records, where, time.monotonic() + seconds, tell, counting)
        given = _training_data(data, weights, setting or [], measured_alone=chosen == [trained.SIZE])
        queue = trained.Queue(recorder, runs, at_once)
        if search:
            given = [trained.held_out(one) for one in given]
        for one in given:
            if search:
                trained.run_search(queue, one)
            else:
                trained.run_claims(queue, one, chosen, read_data(one.folder), explicit=bool(numbers))
    elif data or weights or setting:
        raise CovpoolError("--data, --weights and --setting are for --run; without it, records are shown: add --run")
    folder = records or records_folder()
    known = trained.read_records(folder)
    if known.outdated:
        say(
            Console(stderr=True),
            f"left out, because the settings of the recipes have changed: {', '.join(known.outdated)}",
        )
    if search:
        _show_search(known.searches, console)
    else:
        if page is not None:
            made = trained.make_page(trained.examine_claims(known.claims, folder), known)
            page.write_text(update_page(page.read_text(), made))
        rows = trained.examine_claims(known.claims, folder, chosen)
        show_claims(rows, None, "covpool paper trained NUMBER", console, each=bool(numbers), as_json=json)
    if recorder is not None and recorder.failures:
        raise typer.Exit(1)


def _training_data(
    data: Sequence[str], weights: str, settings: Sequence[str], *, measured_alone: bool
) -> "list[TrainingData]":
    """The data sets, each with the one that its pre-trainings use. Names, settings and folders are checked."""
    from covpool.data.sets import open_data
    from covpool.studies.trained import PRE_TRAINED_ON, TrainingData, find_setting

    for setting in settings:
        if not setting.startswith(FOR_ALL):
            raise CovpoolError(
                f"--setting {setting} would change what the records are named after: only data.cache, data.workers, "
                "data.broken and devices.* can be set for all trainings"
            )
    given = [TrainingData(*named_folder(asked), weights=weights, settings=tuple(settings)) for asked in data]
    for one in given:
        if not measured_alone:  # gradients are measured on any images
            find_setting(one.name)
        open_data(read_data(one.folder))
    start = next((one for one in given if one.name == PRE_TRAINED_ON), None)
    return [replace(one, pre_training=start) for one in given]


def _show_search(searches: "Results", console: Console) -> None:
    from covpool.studies.trained import SETTINGS, in_minutes

    for setting in SETTINGS:
        found = searches.get(setting.data, {})
        if rows := setting.search.standing(found):
            show_search(setting.data, rows, console)
        winners = " and ".join(f"`{arm.label}`" for arm in setting.search.winners(found))
        left = f"{setting.search.stage(found)}, missing: {in_minutes(setting.search.missing(found))}"
        say(console, f"{setting.data}: {f'best: {winners}' if winners else left}")
