"""Tensors in files: results kept under a key, the test scores of a training, and the submission to a challenge."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from covpool._errors import CovpoolError, require
from covpool._files import read_tensors
from covpool.data import Images, image_fingerprint
from covpool.io import replacing
from covpool.recipe import Recipe

SCORES_FILE = "scores.safetensors"
KEY = "covpool"  # of the JSON text in the file's metadata
ANSWERS = 3  # classes per image in a submission: iNaturalist 2018 scores the top-3 error

T = TypeVar("T")


def cached(folder: Path | None, key: dict[str, object], compute: Callable[[], T], kind: type[T]) -> T:
    """Return the result of `compute`, read from the folder if it was computed before under the same key.

    Args:
        folder: Folder of the files; None computes in any case.
        key: Everything the result depends on, as JSON.
        compute: Computes the result.
        kind: Type of the result, a dataclass of tensors. Tensors read from a file are on the CPU.
    """
    if folder is None:
        return compute()
    name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:24]
    path = folder / f"{name}.safetensors"
    if path.is_file():
        try:
            return kind(**read_tensors(path))
        except (ValueError, TypeError) as error:
            raise CovpoolError(
                f"{path} is damaged, or was not written by covpool: delete it, and it is computed again"
            ) from error
    made = compute()
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        require("safetensors.torch", "models").save_file(vars(made), temporary)
    return made


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's contents."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def image_marks(images: Images) -> list[str]:
    """What changes a cache key if an image or its class changes: path, size, modification time and target of each.

    >>> image_marks(Images([Path("a.png")], [1], ("cat", "dog")))
    ["('cat', 'dog')", '1 a.png']
    """
    marked = zip(images.targets, images.paths, strict=True)
    return [repr(images.classes), *(f"{target} {_mark(path)}" for target, path in marked)]


def _mark(path: Path) -> str:
    try:
        about = path.stat()
    except OSError:  # reported when the image is read
        return str(path)
    return f"{path} {about.st_size} {about.st_mtime_ns}"


@dataclass(frozen=True)
class SavedScores:
    """The logits and targets of a test set."""

    logits: Tensor  # (n, classes)
    targets: Tensor  # (n,), -1 = unknown or could not be read


def save_scores(path: Path, scores: SavedScores, checkpoint: Path, recipe: Recipe, fingerprint: str) -> None:
    """Write scores together with everything they depend on.

    Args:
        path: The file.
        scores: The logits and targets.
        checkpoint: The checkpoint that gives these scores, already saved.
        recipe: The recipe of the training.
        fingerprint: Fingerprint of the test set.
    """
    about = {**_settings(checkpoint, recipe), "images": fingerprint}
    tensors = {name: tensor.contiguous() for name, tensor in vars(scores).items()}
    with replacing(path) as partial:
        require("safetensors.torch", "models").save_file(tensors, partial, {KEY: json.dumps(about)})


def read_scores(path: Path, checkpoint: Path, recipe: Recipe, images: Images | None) -> SavedScores | None:
    """Read saved scores; None if there are none, or if they belong to other weights, settings or images.

    Args:
        path: The file.
        checkpoint: The checkpoint.
        recipe: The recipe of the training.
        images: The test set; None if it is not available, and then it is not compared.
    """
    safetensors = require("safetensors", "models")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})[KEY])
        known = about.pop("images")
        if about != _settings(checkpoint, recipe) or (images is not None and known != image_fingerprint(images)):
            return None
        return SavedScores(**read_tensors(path))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, safetensors.SafetensorError):
        return None


def _settings(checkpoint: Path, recipe: Recipe) -> dict[str, object]:
    settings = recipe.evaluate
    return {
        "checkpoint": file_digest(checkpoint),
        "crops": settings.crops,
        "flip": settings.flip,
        "precision": recipe.train.precision,
    }


def write_submission(path: Path, scores: Tensor, images: Images) -> None:
    """Write a CSV file `id,predicted` with the three most probable categories of every image.

    Args:
        path: The CSV file.
        scores: Scores (n, classes); column k is category k of the challenge.
        images: The test set, with its `ids`.
    """
    if not images.ids:
        raise CovpoolError("a submission needs the image numbers of the challenge, which only inat2018's test set has")
    answers = scores.topk(min(ANSWERS, scores.shape[1])).indices.tolist()
    lines = [f"{number},{' '.join(map(str, row))}\n" for number, row in zip(images.ids, answers, strict=True)]
    with replacing(path) as partial:
        partial.write_text("".join(["id,predicted\n", *lines]))
