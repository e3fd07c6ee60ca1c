"""Feature maps of a data set for all arms: at several image sizes, taps and strides, of clean and corrupted images.

The feature maps of one image size are kept. So are its inputs on a GPU, where decoding the images takes longer than the
backbone.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch

from covpool._progress import OnProgress, ignore
from covpool.data import Augment, Data, ResolvedAugment
from covpool.data.pipeline import Batch, EvalBatches
from covpool.data.sets import open_data
from covpool.engine import with_progress
from covpool.models import Backbone, make_features
from covpool.studies._feature_maps import Maps, compute_maps
from covpool.studies.claims._arm import Arm
from covpool.studies.claims._corruptions import corrupt

BATCH = 128

Part = Literal["train", "test"]


@dataclass(frozen=True)
class Subject:
    """What the claims are tested on.

    Attributes:
        name: Name of the data set in the records.
        data: The data set.
        backbone: Name of the backbone.
        weights: File with its weights; "" downloads them.
    """

    name: str
    data: Data
    backbone: str = "torchvision/mobilenet_v2"
    weights: str = ""


class Views:
    """The feature maps of a data set, computed when an arm needs them.

    Args:
        subject: The data set and the backbone.
        device: Device of the backbone and of the maps.
        on_progress: Called while images are read.
    """

    def __init__(self, subject: Subject, device: torch.device, on_progress: OnProgress = ignore) -> None:
        self.subject, self.device, self._on_progress = subject, device, on_progress
        splits = open_data(subject.data)
        self._images = {"train": splits.train, "test": splits.test}
        self.classes = len(splits.train.classes)
        self._backbones: dict[tuple[str, bool], Backbone] = {}
        self._inputs: dict[tuple[Part, int], list[Batch]] = {}
        self._maps: dict[tuple[object, ...], Maps] = {}

    def train(self, arm: Arm) -> Maps:
        """The training images of an arm."""
        maps = self._view(arm, "train", "", arm.flips)
        return _few(maps, arm.per_class, arm.seed) if arm.per_class else maps

    def test(self, arm: Arm) -> Maps:
        """The test images of an arm."""
        return self._view(arm, "test", arm.corruption, False)

    def backbone(self, arm: Arm) -> Backbone:
        """The backbone of an arm, cut after its tap."""
        key = (arm.level, arm.stride)
        if key not in self._backbones:
            found = make_features(
                self.subject.backbone,
                keep_last_stride=arm.stride,
                levels=[arm.level] if arm.level else (),
                pretrained=not self.subject.weights,
                weights=self.subject.weights or None,
            )
            assert isinstance(found, Backbone)
            if self.device.type == "cpu":
                found.to(memory_format=torch.channels_last)  # halves the time of MobileNetV2
            self._backbones[key] = found.to(self.device).eval()
        return self._backbones[key]

    def _augment(self, arm: Arm) -> ResolvedAugment:
        return Augment(size=arm.size).resolved(self.backbone(arm).input_settings)

    def _view(self, arm: Arm, part: Part, corruption: str, flips: bool) -> Maps:
        key = (part, arm.size, arm.level, arm.stride, corruption, flips)
        if not any(known[1] == arm.size for known in self._maps):
            self._maps.clear()
        if key not in self._maps:
            self._maps[key] = self._compute(arm, part, corruption, flips)
        return self._maps[key]

    def _compute(self, arm: Arm, part: Part, corruption: str, flips: bool) -> Maps:
        batches = self._batches(arm, part)
        if corruption:
            batches = _corrupted(batches, corruption, self._augment(arm))
        count, dtype = len(self._images[part]), torch.float16
        return compute_maps(self.backbone(arm), batches, count, flipped=flips, dtype=dtype, keep_on=self.device)

    def _batches(self, arm: Arm, part: Part) -> Iterable[Batch]:
        """The inputs of all images at the size of an arm, in half precision."""
        key = (part, arm.size)
        if key in self._inputs:
            return self._inputs[key]
        batches = EvalBatches(
            self._images[part], self._augment(arm), self.subject.data, batch_size=BATCH, device=self.device
        )
        shown = with_progress(batches, f"{part} images at {arm.size} px", self._on_progress)
        read = (replace(batch, x=batch.x.half()) for batch in shown)
        if self.device.type == "cpu":
            return read
        if any(known[1] != arm.size for known in self._inputs):
            self._inputs.clear()
        return self._inputs.setdefault(key, list(read))


def _corrupted(batches: Iterable[Batch], name: str, augment: ResolvedAugment) -> Iterator[Batch]:
    """Corrupt the images of batches, whose inputs are normalized as `augment` says."""
    for number, batch in enumerate(batches):
        x = batch.x.float()
        mean, std = (x.new_tensor(color)[:, None, None] for color in (augment.mean, augment.std))
        yield replace(batch, x=(corrupt((x * std + mean).clamp(0, 1), name, seed=number) - mean) / std)


def _few(maps: Maps, per_class: int, seed: int) -> Maps:
    """Draw some images of every class; with one seed, fewer images are among more."""
    targets = maps.targets.cpu()
    order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(seed))
    order = order[targets[order].argsort(stable=True)]  # class by class, shuffled within each
    starts = targets[order].bincount().cumsum(0).roll(1)
    starts[0] = 0
    rank = torch.arange(len(order)) - starts[targets[order]]
    rows = order[rank < per_class].sort().values
    copies = len(maps.features) // len(maps)
    every = torch.cat([rows + copy * len(maps) for copy in range(copies)])
    return Maps(maps.features[every.to(maps.features.device)], maps.targets[rows.to(maps.targets.device)])
