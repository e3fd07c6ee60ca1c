"""Feature maps of a frozen backbone, computed once: a probe trains its pools on them."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from torch import Tensor, nn

from covpool._errors import CovpoolError
from covpool.data import UNKNOWN, Images
from covpool.data.pipeline import Batch
from covpool.engine import infer, select_rows

logger = logging.getLogger(__name__)

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}


@dataclass(frozen=True, eq=False)
class Maps:
    """Feature maps of n images, for training followed by those of the flipped images.

    Attributes:
        features: Output of the backbone in the precision of storage, (n or 2 n, ...).
        targets: Targets of the images, (n,), on the device of the pools.
    """

    features: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    def to(self, device: torch.device, *, keep: Literal["device", "ram"] = "device") -> "Maps":
        """Return the maps for pools on a device, with the features on the device or in memory."""
        return Maps(self.features.to(device if keep == "device" else "cpu"), self.targets.to(device))

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return float32 features and targets of rows (b,) of `features`, on the device of the targets."""
        features = self.features.index_select(0, rows.to(self.features.device))
        return features.to(self.targets.device, non_blocking=True).float(), self.targets[rows % len(self)]


def say_left_out(maps: Maps, images: Images, what: str) -> None:
    """Log a warning if the maps lack images whose class is known: with data.broken=skip, those that cannot be read.

    Args:
        maps: The maps, computed or from a cache.
        images: The images that they should have.
        what: What the images are, such as "training".
    """
    known = sum(target != UNKNOWN for target in images.targets)
    if len(maps) < known:
        _warn_once(
            f"{known - len(maps)} of {known} {what} images cannot be read and are left out, because data.broken=skip"
        )


@cache
def _warn_once(message: str) -> None:
    logger.warning("%s", message)


def compute_maps(
    backbone: nn.Module,
    batches: Iterable[Batch],
    count: int,
    *,
    flipped: bool,
    dtype: torch.dtype,
    keep_on: torch.device | str,
) -> Maps:
    """Compute the feature maps of all images that can be read and whose class is known.

    Args:
        backbone: Maps images to features; put in evaluation mode.
        batches: The images, on the device of the backbone.
        count: The largest number of images in all batches.
        flipped: Compute the feature maps of the flipped images too.
        dtype: Type in which the feature maps are kept.
        keep_on: Device on which they are kept.

    Raises:
        CovpoolError: A feature is not finite in this type.
    """
    kept: Tensor | None = None
    targets: list[Tensor] = []
    done = 0
    for found in infer(backbone, select_rows(batches, lambda batch: batch.y >= 0), flip=flipped):
        for side, output in enumerate(found.outputs):
            features = output[0] if isinstance(output, tuple) else output  # a tuple from a backbone that ends at a tap
            if kept is None:
                kept = torch.zeros(1 + flipped, count, *features.shape[1:], dtype=dtype, device=keep_on)
            kept[side, done : done + len(features)] = features.to(dtype)
        targets.append(found.batch.y)
        done += len(found.batch.y)
    if kept is None:
        raise CovpoolError("no image can be read and has a known class: there is nothing to probe")
    kept = kept[:, :done].flatten(0, 1)
    if not kept.isfinite().all():
        raise CovpoolError(f"features of the backbone are not finite as {dtype}: set maps=bf16 or maps=fp32")
    return Maps(kept, torch.cat(targets))
