"""The source of batches that a recipe asks for: files, or a cache in memory or on the device."""

from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torchvision.transforms import v2

from covpool._errors import CovpoolError
from covpool._progress import OnProgress
from covpool.data._images import BrokenImage, Images
from covpool.data._settings import Data, ResolvedAugment
from covpool.data.pipeline._batch import Source
from covpool.data.pipeline._decoded import DecodedImages, Decoding
from covpool.data.pipeline._device_images import DeviceImages
from covpool.data.pipeline._device_source import DeviceSource
from covpool.data.pipeline._loader import LoaderSource
from covpool.data.pipeline._samples import ImageSource, Samples
from covpool.data.pipeline._transforms import Crops, eval_transform, resize, resizes_first, train_transform

Cached = TypeVar("Cached", DecodedImages, DeviceImages)

# A cache lives as long as the list of its files, so the stages of a run share it.
_CACHES: WeakKeyDictionary[Images, dict[Any, Any]] = WeakKeyDictionary()


class Sources:
    """Builds the sources of batches for one set of images.

    Args:
        images: Training set or test set.
        augment: How an image becomes an input.
        data: How images are read and cached.
        device: Device that receives the batches.
        on_progress: Called while images are decoded into a cache.
    """

    def __init__(
        self, images: Images, augment: ResolvedAugment, data: Data, device: torch.device, on_progress: OnProgress
    ) -> None:
        self._images, self._augment, self._data, self._device = images, augment, data, device
        self._on_progress = on_progress

    def training(self, seed: int) -> Source:
        """Augmented images; the random numbers depend on (seed, epoch, index) alone."""
        if self._data.cache == "gpu":
            if self._augment.randaugment:
                raise CovpoolError(
                    'data.cache = "gpu" does not support augment.randaugment, which works image by image: '
                    'use cache = "ram", or randaugment = 0'
                )
            return DeviceSource(self._on_device(), self._augment, seed=seed)
        transform = train_transform(self._augment, resized=self._data.cache == "ram")
        samples = Samples(self._images_to_load(resized=resizes_first(self._augment)), transform, seed=seed)
        return LoaderSource(samples, self._images, self._data, self._device)

    def evaluation(self, crops: Crops) -> Source:
        """Test crops of the images, without anything random."""
        if self._data.cache == "gpu":
            return DeviceSource(self._on_device(), self._augment, crops=crops)
        size = self._augment.size
        blank = torch.zeros(3, size, size) if crops == 1 else torch.zeros(10, 3, size, size)
        transform = eval_transform(self._augment, crops=crops, resized=self._data.cache == "ram")
        return LoaderSource(
            Samples(self._images_to_load(resized=True), transform, blank=blank), self._images, self._data, self._device
        )

    def decode_ahead(self) -> Decoding | None:
        """Begin to decode the images for `evaluation`, without waiting for them; None if it reads files."""
        if self._data.cache == "none":
            return None
        ahead = self._ahead()
        if self._how() not in ahead:
            ahead[self._how()] = Decoding(self._images, resize(self._augment))
        return ahead[self._how()]

    def _images_to_load(self, *, resized: bool) -> ImageSource:
        if self._data.cache == "none":
            return self._images
        caches, key = self._caches(resized, "ram")
        if key not in caches:
            caches[key] = self._decoded(resized=resized)
        return self._checked(caches[key])

    def _on_device(self) -> DeviceImages:
        caches, key = self._caches(True, self._device)
        if key not in caches:
            caches[key] = DeviceImages(self._checked(self._decoded(resized=True)), self._device)
        return self._checked(caches[key])

    def _caches(self, resized: bool, where: object) -> tuple[dict[Any, Any], object]:
        return _CACHES.setdefault(self._images, {}), (self._how() if resized else None, where)

    def _how(self) -> object:
        return self._augment.resize, self._augment.interpolation

    def _ahead(self) -> dict[Any, Decoding]:
        """The sets that are being decoded ahead, by how their images are resized."""
        ahead: dict[Any, Decoding] = _CACHES.setdefault(self._images, {}).setdefault("ahead", {})
        return ahead

    def _decoded(self, *, resized: bool) -> DecodedImages:
        decoding = self._ahead().pop(self._how(), None) if resized else None
        prepare = resize(self._augment) if resized else v2.Identity()
        return DecodedImages(decoding or Decoding(self._images, prepare), self._on_progress)

    def _checked(self, cached: Cached) -> Cached:
        """Reject broken images if the recipe says so."""
        if cached.reasons and self._data.broken == "refuse":
            first = min(cached.reasons)
            raise BrokenImage(self._images.paths[first], cached.reasons[first])
        return cached
