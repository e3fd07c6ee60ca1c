"""`covpool eval`: checkpoints on a data set."""

import json as json_format
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console

from covpool._errors import CovpoolError, check_choice, check_positive_int
from covpool.cli._options import Device, Flip, chosen_device, split_data, suggest_skip_broken
from covpool.cli._output import counting_bar, make_folder, say, table

if TYPE_CHECKING:
    from torch import Tensor

    from covpool.data import Data, Images
    from covpool.data.sets import Splits
    from covpool.engine.evaluation import Evaluation, EvaluationProtocol

CLASSES_SHOWN = 10


def command(
    checkpoints: list[Path],
    *,
    data: str = "",
    split: int = 0,
    crops: int = 0,
    flip: Flip = None,
    classifier: str = "softmax",
    features: Path = Path("features"),
    batch_size: int = 64,
    workers: int = 2,
    skip_broken: bool | None = None,
    force: bool = False,
    device: Device = "",
    json: Path | None = None,
    submission: Path | None = None,
) -> None:
    """Evaluate checkpoints: top-1/3/5 accuracy with 95 % intervals, worst classes, calibration error.

    Without options, the evaluation is that of the training: the same images, crops, flips and precision.

    Args:
        checkpoints: Checkpoints to evaluate. The scores of several checkpoints are averaged.
        data: Folder of the data set, or NAME:FOLDER as in cub:/data/CUB_200_2011. The default is the data set in the
            recipe of the checkpoint.
        split: Split of DTD, 1 to 10. The default, 0, is the one in the recipe.
        crops: Number of crops per image: 1 (central) or 10. The default, 0, is that of the training.
        classifier: Classifier: softmax (the network's own), or svm (one-vs-all SVMs on the pooled features).
        features: Folder in which the pooled features for the SVM are cached.
        batch_size: Number of images per batch.
        workers: Number of processes that read images.
        skip_broken: Skip images that cannot be read instead of stopping. The default is as in the training.
        force: Evaluate on a split the checkpoint was not trained on. Its test images may have been used for training.
        json: Write all results to this file as JSON.
        submission: Write the submission file of iNaturalist, three classes per test image, to this path.
    """
    _check(crops, classifier, batch_size, workers)
    from covpool.data.sets import open_data
    from covpool.engine.evaluation import EvaluationProtocol, summarize_scores, write_submission

    if skip_broken is None:
        skip_broken = _skipped_broken(checkpoints[0])
    chosen = data_of(checkpoints[0], data, split).changed(workers=workers, broken="skip" if skip_broken else "refuse")
    splits = open_data(chosen)
    test = splits.test
    if submission is not None and not test.ids:
        raise CovpoolError(
            f"--submission needs the image numbers of inat2018's test set; got {chosen.name!r}, {chosen.test_on}: "
            "leave it out, or name the data with --data inat2018:FOLDER"
        )
    console = Console()
    protocol = EvaluationProtocol(
        crops=cast(Any, crops or None),
        flip=flip,
        classifier=cast(Any, classifier),
        batch_size=batch_size,
        device=chosen_device(device),
        features=features if classifier == "svm" else None,
        force=force,
    )
    scores, targets = _scores(checkpoints, splits, chosen, protocol, console)
    if submission is not None:
        write_submission(make_folder(submission), scores, test)
        say(console, f"wrote the classes of {len(test)} images to {submission}")
        return
    found = summarize_scores(scores, targets, test.classes, probabilities=classifier == "softmax")
    how = _settings(checkpoints, protocol)
    _show(found, how, console)
    _warn_of_choice(checkpoints, test, console)
    if json is not None:
        settings: dict[str, object] = {
            **{key: values[0] if len(set(values)) == 1 else values for key, values in how.items()},
            "checkpoints": [str(path) for path in checkpoints],
            "data": chosen.name,
            "split": chosen.split,
            "force": force,
        }
        make_folder(json).write_text(json_format.dumps({**settings, **found.as_json()}, indent=2) + "\n")
        say(console, f"wrote {json}")


def _skipped_broken(checkpoint: Path) -> bool:
    """Whether the training of a checkpoint skipped images that cannot be read."""
    from covpool.io import read_checkpoint

    training = read_checkpoint(checkpoint).training
    data = (training.recipe or {}).get("data") if training else None
    return isinstance(data, dict) and data.get("broken") == "skip"


def _settings(checkpoints: list[Path], protocol: "EvaluationProtocol") -> dict[str, list[Any]]:
    """The settings of the evaluation, one value per checkpoint."""
    from covpool.io import read_checkpoint

    found = [protocol.settings_for(read_checkpoint(path)).model_dump() for path in checkpoints]
    values: dict[str, list[Any]] = {key: [one[key] for one in found] for key in found[0]}
    return {**values, "classifier": [protocol.classifier] * len(checkpoints)}


def _warn_of_choice(checkpoints: list[Path], test: "Images", console: Console) -> None:
    """Say that a checkpoint was chosen on the images it is evaluated on."""
    from covpool.data import image_fingerprint
    from covpool.io import read_checkpoint

    for about in map(read_checkpoint, checkpoints):
        is_chosen = about.training is not None and about.training.notes.get("chosen_on") == "test"
        if is_chosen and about.data and about.data.fingerprints.get("test") == image_fingerprint(test):
            say(
                console,
                f"{about.path} is the best epoch on these test images, so its accuracy is too optimistic: the result "
                "of its run is that of last.safetensors",
            )


def _check(crops: int, classifier: str, batch_size: int, workers: int) -> None:
    check_positive_int("--batch-size", batch_size)
    check_choice("--crops", crops, (0, 1, 10))
    check_choice("--classifier", classifier, ("softmax", "svm"))
    if workers < 0:
        raise CovpoolError(f"--workers must be 0 (read images in this process) or more; got {workers}")
    if classifier == "svm" and crops == 10:
        raise CovpoolError("--classifier svm uses the central crop and its flipped copy: leave --crops out")


def data_of(checkpoint: Path, asked: str, split: int) -> "Data":
    """Return the data set to evaluate on: the one asked for, or else the one in the checkpoint's recipe."""
    from covpool.data import Data
    from covpool.data.pipeline import data_settings
    from covpool.io import read_checkpoint

    kept = read_checkpoint(checkpoint).data
    own = data_settings(kept) if kept else Data()
    if asked:
        name, root = split_data(asked)
        known = own if name in ("", own.name) else Data()  # the recipe's parts and split belong to its own data set
        chosen = known.changed(name=name or own.name, root=root)
    elif kept:
        chosen = own
    else:
        raise CovpoolError(f"{checkpoint} does not say which data it was trained on: name the folder with --data")
    return chosen.changed(split=split or chosen.split, cache="none")


def _scores(
    checkpoints: list[Path], splits: "Splits", data: "Data", protocol: "EvaluationProtocol", console: Console
) -> "tuple[Tensor, Tensor]":
    """Scores and targets of the test images, under a progress bar."""
    from covpool.engine.evaluation import fused_scores

    with suggest_skip_broken(), counting_bar(console, "reading") as on_progress:
        return fused_scores(checkpoints, splits, data, replace(protocol, on_progress=on_progress))


def _show(found: "Evaluation", how: dict[str, list[Any]], console: Console) -> None:
    rows = []
    for name in found.told:
        value, (low, high) = found.accuracy[name], found.interval[name]
        rows.append((name.replace("top", "top-"), f"{value:.2%}", f"{1 - value:.2%}", f"{low:.2%} to {high:.2%}"))
    console.print(table(("", "accuracy", "error", "95 % interval of the accuracy"), rows))
    skipped = f"; {found.unread} skipped" if found.unread else ""
    calibration = "" if found.calibration_error is None else f"; calibration error {found.calibration_error:.3f}"
    console.print(f"{found.images} images{skipped}; {_describe(how)}{calibration}", highlight=False)
    worst = found.by_class[:CLASSES_SHOWN]
    classes = [(row.name, str(row.images), f"{row.top1:.1%}") for row in worst]
    console.print(table(("class", "images", "top-1"), classes, title=f"the {len(worst)} worst classes"))


def _describe(how: dict[str, list[Any]]) -> str:
    """The settings of the evaluation in words; those of several checkpoints if they differ."""
    if how["classifier"][0] == "svm":
        return "SVMs, averaged over flips"
    words = []
    for crops, flip, precision in zip(how["crops"], how["flip"], how["precision"], strict=True):
        cut = "central crop" if crops == 1 else "ten crops"
        words.append(cut + ", averaged over flips" * flip + f", in {precision}" * (precision != "32"))
    return " and ".join(dict.fromkeys(words))
