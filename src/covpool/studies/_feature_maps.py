"""Feature maps of a frozen backbone, computed once: a probe trains its pools on them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from covpool._errors import CovpoolError
from covpool.data.pipeline import EvalBatches

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}

Progress = Callable[[int, int], None]  # batches done, of how many


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


@torch.no_grad()
def compute_maps(
    backbone: nn.Module,
    batches: EvalBatches,
    *,
    mirrored: bool,
    dtype: torch.dtype,
    keep_on: torch.device | str,
    on_progress: Progress | None = None,
) -> Maps:
    """The features of all pictures that can be read and whose class is known.

    Args:
        backbone: images -> features; put into eval mode.
        batches: the pictures, on the backbone's device.
        mirrored: compute those of the mirror images too.
        dtype: in which they are kept.
        keep_on: where they are kept.
        on_progress: called after every batch.

    Raises:
        CovpoolError: a feature is not finite in this precision.
    """
    backbone.eval()
    count = len(batches.images)
    kept: Tensor | None = None
    targets: list[Tensor] = []
    done = 0
    for number, batch in enumerate(batches, 1):
        known = batch.y >= 0
        for side, x in enumerate((batch.x, batch.x.flip(-1)) if mirrored else (batch.x,)):
            features = backbone(x[known]).to(dtype)
            if kept is None:
                kept = torch.zeros(1 + mirrored, count, *features.shape[1:], dtype=dtype, device=keep_on)
            kept[side, done : done + len(features)] = features
        targets.append(batch.y[known])
        done += len(targets[-1])
        if on_progress is not None:
            on_progress(number, len(batches))
    if kept is None or not done:
        raise CovpoolError("no picture can be read and has a known class: there is nothing to probe")
    kept = kept[:, :done].flatten(0, 1)
    if not kept.isfinite().all():
        raise CovpoolError(f"features of the backbone are not finite as {dtype}: set maps=bf16 or maps=fp32")
    return Maps(kept, torch.cat(targets))
