"""Feature maps of a frozen backbone, computed once: a probe trains its pools on them."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from covpool._errors import CovpoolError
from covpool._progress import OnProgress, ignore
from covpool.data.pipeline import EvalBatches
from covpool.engine import infer, select_rows, with_progress

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


def compute_maps(
    backbone: nn.Module,
    batches: EvalBatches,
    *,
    flipped: bool,
    dtype: torch.dtype,
    keep_on: torch.device | str,
    on_progress: OnProgress = ignore,
) -> Maps:
    """Compute the feature maps of all images that can be read and whose class is known.

    Args:
        backbone: Maps images to features; put in evaluation mode.
        batches: The images, on the device of the backbone.
        flipped: Compute the feature maps of the flipped images too.
        dtype: Type in which the feature maps are kept.
        keep_on: Device on which they are kept.
        on_progress: Called after every batch.

    Raises:
        CovpoolError: A feature is not finite in this type.
    """
    kept: Tensor | None = None
    targets: list[Tensor] = []
    done = 0
    readable = select_rows(with_progress(batches, "feature maps", on_progress), lambda batch: batch.y >= 0)
    for found in infer(backbone, readable, flip=flipped):
        for side, features in enumerate(found.outputs):
            if kept is None:
                kept = torch.zeros(1 + flipped, len(batches.images), *features.shape[1:], dtype=dtype, device=keep_on)
            kept[side, done : done + len(features)] = features.to(dtype)
        targets.append(found.batch.y)
        done += len(found.batch.y)
    if kept is None:
        raise CovpoolError("no image can be read and has a known class: there is nothing to probe")
    kept = kept[:, :done].flatten(0, 1)
    if not kept.isfinite().all():
        raise CovpoolError(f"features of the backbone are not finite as {dtype}: set maps=bf16 or maps=fp32")
    return Maps(kept, torch.cat(targets))
