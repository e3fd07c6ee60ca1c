"""`covpool paper trained`: the claims of the paper, tested on trained networks."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from covpool._errors import CovpoolError
from covpool.cli._fabric import import_fabric
from covpool.cli._options import read_data
from covpool.cli._output import counting_bar, say
from covpool.cli._scoreboard import choose_claims, named_folder, show_claims, show_search

if TYPE_CHECKING:
    from covpool.studies.claims import Claim, Results
    from covpool.studies.trained import TrainedArm, TrainingData

# Settings that do not change what is learned. Records are named after all others.
FOR_ALL = ("data.cache=", "data.workers=", "data.broken=", "devices.")


@dataclass
class _Queue:
    """How the trainings of a command run: the folders of records and runs, how many at once, and until when."""

    records: Path
    runs: Path
    at_once: int
    end: float
    console: Console
    failures: int = 0


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
    from covpool.studies import trained
    from covpool.studies.claims import records_folder, update_page

    chosen, console = choose_claims(numbers, trained.ALL_CLAIMS), Console()
    if search and (numbers or json or page):
        raise CovpoolError("--search shows and runs all trainings of the search; leave out numbers, --json and --page")
    queue = None
    if run:
        if records is None or not data:
            raise CovpoolError("--run needs --records FOLDER and --data NAME=FOLDER, as in --data cub200=/data/cub")
        queue = _Queue(records, runs, at_once, time.monotonic() + seconds, console)
        given = _training_data(data, weights, setting or [], measured_alone=chosen == [trained.SIZE])
        if search:
            given = [trained.held_out(one) for one in given]
        for one in given:
            if search:
                _search(queue, one)
            else:
                _run_claims(queue, one, chosen, explicit=bool(numbers))
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
    if queue is not None and queue.failures:
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


def _search(queue: _Queue, data: "TrainingData") -> None:
    """Run the screening, and then the finals, as far as the time allows."""
    from covpool.studies.trained import SEARCH_PATTERN, find_setting, read_records

    search = find_setting(data.name).search
    while True:
        arms = search.missing(read_records(queue.records).searches.get(data.name, {}))
        if not arms or _train(queue, arms, data, SEARCH_PATTERN) < len(arms):
            return


def _run_claims(queue: _Queue, data: "TrainingData", claims: "Sequence[Claim[Any]]", *, explicit: bool) -> None:
    """Run what is missing on a data set. Gradients are measured if asked for by number, or where weights are used."""
    from covpool.studies.claims import plan
    from covpool.studies.trained import PATTERN, PRE_TRAINED_ON, SIZE, TIME, find_setting, read_records

    if explicit and list(claims) == [SIZE]:  # on any images
        _measure(queue, data)
        return
    if explicit and TIME in claims:
        say(queue.console, f"claim {TIME.number} needs no training: `covpool bench --model` makes its records")
    setting = find_setting(data.name)
    arms = plan(setting.only(claims).claims, read_records(queue.records).claims.get(data.name, {}))
    later = [arm for arm in arms if arm.starts_from and data.pre_training is None]
    if later:
        say(
            queue.console,
            f"{len(later)} trainings start from trainings on {PRE_TRAINED_ON}, and are left out: add --data "
            f"{PRE_TRAINED_ON}=FOLDER",
        )
    _train(queue, [arm for arm in arms if arm not in later], data, PATTERN)
    if SIZE in claims and (explicit or setting.starts_from_weights):
        _measure(queue, data)


def _measure(queue: _Queue, data: "TrainingData") -> None:
    """Measure gradients, unless they have a record."""
    import torch

    from covpool._records import append_lines, environment, read_lines
    from covpool.studies.trained import GRADIENTS, measure_gradients

    path = _record_path(queue, f"{GRADIENTS}_*.jsonl", data.name)
    if path.is_file() and any(line["data"] == data.name for line in read_lines(path)):
        return
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with counting_bar(queue.console, data.name) as on_progress:
        found = measure_gradients(
            data.name, read_data(data.folder), weights=data.weights, device=device, on_progress=on_progress
        )
    append_lines(path, {**environment(device, 0), **found})
    say(queue.console, f"{data.name}: gradients measured; record: {path}")


def _train(queue: _Queue, arms: "Sequence[TrainedArm]", data: "TrainingData", pattern: str) -> int:
    """Run trainings and record them. Returns how many have ended with a record."""
    import torch

    from covpool._records import append_lines, environment
    from covpool.studies.trained import train_arms

    path, console, done = _record_path(queue, pattern, data.name), queue.console, 0
    where = environment(torch.device("cuda" if torch.cuda.is_available() else "cpu"))

    def failed(arm: "TrainedArm", error: Exception) -> None:
        queue.failures += 1
        say(console, f"{arm.name} failed: {error}")

    left = queue.end - time.monotonic()
    with counting_bar(console, data.name) as on_progress:
        on_progress(data.name, done, len(arms))
        for result in train_arms(data, arms, queue.runs, at_once=queue.at_once, seconds=left, on_failure=failed):
            done += 1
            on_progress(f"{data.name}, {result.arm}", done, len(arms))
            append_lines(path, {**where, **result.as_json()})
            told = f"{100 * result.top1:.1f} %" if result.converged else "diverged"
            say(console, f"{result.arm}: {told}, {result.seconds:.0f} s")
    say(console, f"{data.name}: {done} of {len(arms)} missing trainings done; records: {path}")
    return done


def _record_path(queue: _Queue, pattern: str, data: str) -> Path:
    queue.records.mkdir(parents=True, exist_ok=True)
    return queue.records / pattern.replace("*", data.replace("-", ""))
