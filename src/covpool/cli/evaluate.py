"""`covpool eval`: checkpoints on a data set."""

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from covpool._check import check_positive_int, require
from covpool._errors import CovpoolError
from covpool.cli.data_option import split_data
from covpool.cli.device_option import chosen_device
from covpool.cli.output import make_folder
from covpool.data import Data
from covpool.io import read_metadata

if TYPE_CHECKING:
    from covpool.engine.evaluation import ClassAccuracy, Protocol

CLASSES_SHOWN = 10


def evaluate_command(
    checkpoints: Annotated[list[Path], typer.Argument(help="one, or several whose scores are averaged")],
    data: Annotated[
        str,
        typer.Option(help="the folder of the data set, or NAME:FOLDER as in cub:/data/CUB_200_2011; else the recipe's"),
    ] = "",
    split: Annotated[int, typer.Option(help="of DTD, 1 to 10; 0 = the recipe's")] = 0,
    crops: Annotated[str, typer.Option(help="1 (central) or 10")] = "1",
    flip: Annotated[bool, typer.Option(help="average over the mirror image")] = False,
    classifier: Annotated[str, typer.Option(help="softmax, or svm: one-vs-all on the pooled features")] = "softmax",
    features: Annotated[Path, typer.Option(help="folder that keeps pooled features for the SVM")] = Path("features"),
    batch_size: Annotated[int, typer.Option(help="images at a time")] = 64,
    workers: Annotated[int, typer.Option(help="processes that read pictures")] = 2,
    skip_broken: Annotated[bool, typer.Option(help="leave out pictures that cannot be read")] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda; the GPU if there is one")] = "",
    json: Annotated[Path | None, typer.Option(help="write everything measured to this file")] = None,
    submission: Annotated[
        Path | None, typer.Option(help="write iNaturalist's file of three answers per test picture instead of judging")
    ] = None,
) -> None:
    """Judge checkpoints: top-1/3/5 accuracy with 95 % intervals, worst classes, calibration; several are fused."""
    check_positive_int("--batch-size", batch_size)
    if workers < 0:
        raise CovpoolError(f"--workers must be 0 (pictures are read in this process) or more; got {workers}")
    if classifier == "svm" and crops != "1":
        raise CovpoolError("--classifier svm judges the central crop and its mirror image: leave --crops out")
    require("torchmetrics", "train")
    from covpool.data import BrokenImage
    from covpool.data.sets import open_data
    from covpool.engine.evaluation import Protocol, fused_scores, judge, write_submission

    chosen = data_of(checkpoints[0], data, split).changed(workers=workers, broken="skip" if skip_broken else "refuse")
    splits = open_data(chosen)
    if submission is not None and not splits.test.ids:
        raise CovpoolError(
            f"--submission needs the owners' picture numbers, which only inat2018's test part has; got "
            f"{chosen.name!r}, {chosen.test_on}: leave it out, or name the data with --data inat2018:FOLDER"
        )
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=None)
        protocol = Protocol(
            crops=_one_or_ten(crops),
            flip=flip,
            classifier=_classifier(classifier),
            batch_size=batch_size,
            device=chosen_device(device),
            features=features if classifier == "svm" else None,
            on_progress=lambda what, done, of: bar.update(task, description=what, completed=done, total=of or None),
        )
        try:
            scores, targets = fused_scores(checkpoints, splits, chosen, protocol)
        except BrokenImage as broken:
            raise CovpoolError(
                f"{broken.path} cannot be read ({broken.reason}): mend or remove it, or add --skip-broken"
            ) from broken
    if submission is not None:
        make_folder(submission)
        write_submission(submission, scores, splits.test)
        console.print(f"{len(splits.test)} pictures answered in {submission}", markup=False, soft_wrap=True)
        return
    found = judge(scores, targets, splits.test.classes, probabilities=classifier == "softmax")
    console.print(_accuracies(found.accuracy, found.interval))
    left_out = f"; {found.unread} left out" if found.unread else ""
    calibration = "" if found.calibration_error is None else f"; calibration error {found.calibration_error:.3f}"
    console.print(f"{found.images} images{left_out}; {_how(protocol)}{calibration}", highlight=False)
    console.print(_worst(found.by_class))
    if json is not None:
        settings: dict[str, object] = {"crops": protocol.crops, "flip": flip, "classifier": classifier}
        settings |= {"checkpoints": [str(path) for path in checkpoints], "data": chosen.name, "split": chosen.split}
        make_folder(json)
        json.write_text(json_format.dumps({**settings, **found.as_json()}, indent=2) + "\n")
        console.print(f"written to {json}", markup=False, highlight=False, soft_wrap=True)


def data_of(checkpoint: Path, asked: str, split: int) -> Data:
    """The data set to judge on: the one asked for, else that of the checkpoint's own recipe."""
    kept = ((read_metadata(checkpoint)["recipe_extra"] or {}).get("training") or {}).get("data")
    own = Data(**kept) if kept else Data()
    if asked:
        name, root = split_data(asked)
        known = own if name in ("", own.name) else Data()  # the recipe's parts and split are those of its own data set
        chosen = known.changed(name=name or own.name, root=root)
    elif kept:
        chosen = own
    else:
        raise CovpoolError(f"{checkpoint} does not say which data it was trained on: name its folder with --data")
    return chosen.changed(split=split or chosen.split, cache="none")


def _one_or_ten(crops: str) -> Literal[1, 10]:
    if crops == "1":
        return 1
    if crops == "10":
        return 10
    raise CovpoolError(f"--crops must be 1 or 10; got {crops}")


def _classifier(name: str) -> Literal["softmax", "svm"]:
    if name == "softmax":
        return "softmax"
    if name == "svm":
        return "svm"
    raise CovpoolError(f"--classifier must be softmax or svm; got {name!r}")


def _how(protocol: "Protocol") -> str:
    """Which protocol the figures are of."""
    if protocol.classifier == "svm":
        return "SVMs, averaged over the mirror images"
    crops = "central crop" if protocol.crops == 1 else "ten crops"
    return crops + ", averaged over the mirror images" * protocol.flip


def _accuracies(accuracy: dict[str, float], interval: dict[str, tuple[float, float]]) -> Table:
    table = Table("", "accuracy", "error", "95 % interval of the accuracy")
    for name, value in accuracy.items():
        low, high = interval[name]
        table.add_row(name.replace("top", "top-"), f"{value:.2%}", f"{1 - value:.2%}", f"{low:.2%} to {high:.2%}")
    return table


def _worst(by_class: "list[ClassAccuracy]") -> Table:
    table = Table("class", "images", "top-1", title=f"the {min(CLASSES_SHOWN, len(by_class))} worst classes")
    for row in by_class[:CLASSES_SHOWN]:
        table.add_row(escape(row.name), str(row.images), f"{row.top1:.1%}")
    return table
