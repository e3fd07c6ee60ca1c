"""Pooled features of pictures and their mirror images, kept on disk: what an SVM is trained on."""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

import torch
from torch import Tensor
from torch.nn.functional import normalize

from covpool._check import require
from covpool._errors import CovpoolError
from covpool._files import read_tensors
from covpool.data.pipeline import Batch
from covpool.io import replacing
from covpool.models import Network

T = TypeVar("T")


@dataclass(frozen=True)
class Pooled:
    """Pool outputs of unit length."""

    z: Tensor  # (n, d), of the pictures
    mirrored: Tensor  # (n, d), of their mirror images
    targets: Tensor  # (n,)


@torch.no_grad()
def pooled(network: Network, batches: Iterable[Batch]) -> Pooled:
    """The pool's output, before the classifier, of every picture and of its mirror image, at unit length.

    Of a pool that gives scores, its representation is taken.
    """
    network.eval()
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for batch in batches:
        both = [normalize(_representation(network, x).float()).cpu() for x in (batch.x, batch.x.flip(-1))]
        parts.append((both[0], both[1], batch.y.cpu()))
    z, mirrored, targets = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    return Pooled(z, mirrored, targets)


def _representation(network: Network, x: Tensor) -> Tensor:
    features = network.forward_features(x)
    if network.pool.output == "features":
        return network.forward_pool(features)
    represent = cast(Callable[..., Tensor], network.pool.representation)
    return represent(*features) if isinstance(features, tuple) else represent(features)


def cached(folder: Path | None, key: dict[str, object], compute: Callable[[], T], kind: type[T]) -> T:
    """What `compute` gives, from a file of the folder if it was computed before under the same key.

    Args:
        folder: of the files; None computes in any case.
        key: all that the result depends on, as JSON.
        compute: the work.
        kind: of the result: a dataclass of tensors; from a file they come on the CPU.
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
                f"{path} is damaged, or not a file of covpool's: delete it, and it is made anew"
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


def file_marks(paths: Iterable[Path]) -> list[str]:
    """Every file with its size and the time it was changed: what was kept of a picture that was replaced is stale."""
    return [_mark(path) for path in paths]


def _mark(path: Path) -> str:
    try:
        about = path.stat()
    except OSError:  # whoever reads it says so
        return str(path)
    return f"{path} {about.st_size} {about.st_mtime_ns}"
