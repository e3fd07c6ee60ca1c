"""Where the batches of a recipe come from: files, memory or the device."""

from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from PIL import Image

from covpool._errors import CovpoolError
from covpool._progress import OnProgress
from covpool.data._images import BrokenImage, Images
from covpool.data._settings import Augment, Data
from covpool.data.pipeline._batch import Source
from covpool.data.pipeline._decoded import DecodedImages, Prepare
from covpool.data.pipeline._loader import LoaderSource
from covpool.data.pipeline._on_device import DevicePictures, DeviceSource
from covpool.data.pipeline._samples import Loads, Samples
from covpool.data.pipeline._transforms import Crops, eval_transform, resize, resizes_first, train_transform

Kept = TypeVar("Kept", DecodedImages, DevicePictures)

# What was decoded lives as long as the list of its files: the stages of a run, and its pool, decode once.
_CACHES: WeakKeyDictionary[Images, dict[Any, Any]] = WeakKeyDictionary()


class Sources:
    """Builds sources for one part of a data set.

    Args:
        images: the part.
        augment: from picture to input.
        data: how pictures are read and kept.
        device: where batches go.
        on_progress: Called while images are decoded into a cache.
    """

    def __init__(
        self, images: Images, augment: Augment, data: Data, device: torch.device, on_progress: OnProgress
    ) -> None:
        self._images, self._augment, self._data, self._device = images, augment, data, device
        self._on_progress = on_progress

    def training(self, seed: int) -> Source:
        """Pictures varied as the recipe says; the random numbers depend on (seed, epoch, picture) alone."""
        if self._data.cache == "gpu":
            self._check_device()
            return DeviceSource(self._on_device(), self._augment, seed=seed)
        transform = train_transform(self._augment, resized=self._data.cache == "ram")
        samples = Samples(self._kept(resized=resizes_first(self._augment)), transform, seed=seed)
        return LoaderSource(samples, self._images, self._data, self._device)

    def evaluation(self, crops: Crops) -> Source:
        """Pictures cut as the recipe says for the test."""
        if self._data.cache == "gpu":
            return DeviceSource(self._on_device(), self._augment, crops=crops)
        size = self._augment.size
        blank = torch.zeros(3, size, size) if crops == 1 else torch.zeros(10, 3, size, size)
        transform = eval_transform(self._augment, crops=crops, resized=self._data.cache == "ram")
        return LoaderSource(
            Samples(self._kept(resized=True), transform, blank=blank), self._images, self._data, self._device
        )

    def _check_device(self) -> None:
        if self._augment.randaugment:
            raise CovpoolError(
                'data.cache = "gpu" cannot do augment.randaugment, whose operations go picture by picture: '
                'use cache = "ram", or randaugment = 0'
            )

    def _kept(self, *, resized: bool) -> Loads:
        if self._data.cache == "none":
            return self._images
        caches, key = self._caches(resized, "ram")
        if key not in caches:
            caches[key] = self._decoded(resize(self._augment) if resized else _as_it_is)
        return self._checked(caches[key])

    def _on_device(self) -> DevicePictures:
        caches, key = self._caches(True, self._device)
        if key not in caches:
            caches[key] = DevicePictures(self._checked(self._decoded(resize(self._augment))), self._device)
        return self._checked(caches[key])

    def _caches(self, resized: bool, place: object) -> tuple[dict[Any, Any], object]:
        how = (self._augment.resize, self._augment.interpolation) if resized else None
        return _CACHES.setdefault(self._images, {}), (how, place)

    def _decoded(self, prepare: Prepare) -> DecodedImages:
        return DecodedImages(self._images, prepare, self._on_progress)

    def _checked(self, kept: Kept) -> Kept:
        """Refuse broken pictures, where they are to be refused."""
        if kept.reasons and self._data.broken == "refuse":
            first = min(kept.reasons)
            raise BrokenImage(self._images.paths[first], kept.reasons[first])
        return kept


def _as_it_is(image: Image.Image) -> Image.Image:
    return image
