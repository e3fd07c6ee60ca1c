"""Colour of a batch on the device: jitter, AlexNet's noise, normalisation."""

import torch
from torch import Tensor

from covpool.data._settings import Augment
from covpool.data.pipeline._boxes import Draws
from covpool.data.pipeline._transforms import PCA_VALUES, PCA_VECTORS

GREY = (0.2989, 0.587, 0.114)  # of red, green and blue, as torchvision has it


class Color:
    """What a recipe says of colour, for batches (b, 3, h, w) in [0, 1]; its constants wait on the device."""

    def __init__(self, augment: Augment, device: torch.device) -> None:
        self._jitter, self._noise = augment.color_jitter, augment.pca_noise
        factors = [1 / std for std in augment.std]
        shifts = [-mean / std for mean, std in zip(augment.mean, augment.std, strict=True)]
        constants = torch.tensor([factors, shifts, GREY], device=device)
        self._factor, self._shift, self._grey = constants[:, :, None, None]
        self._directions = (PCA_VECTORS * PCA_VALUES).mT.to(device)  # one per row

    def normalised(self, x: Tensor) -> Tensor:
        """(x - mean) / std, as one operation: x (1 / std) + (-mean / std)."""
        return torch.addcmul(self._shift, x, self._factor)

    def varied(self, x: Tensor, draws: Draws) -> Tensor:
        """Jittered, with noise, where the recipe says so, and normalised, in `train_transform`'s order."""
        if self._jitter:
            x = self._jittered(x, draws.color)
        if self._noise:
            x = x + (self._noise * draws.noise @ self._directions)[..., None, None]
        return self.normalised(x)

    def _jittered(self, x: Tensor, uniform: Tensor) -> Tensor:
        """Brightness, contrast, saturation, each by a factor in 1 +- jitter; torchvision draws their order too."""
        low, high = max(0.0, 1 - self._jitter), 1 + self._jitter
        brightness, contrast, saturation = (low + (high - low) * uniform)[..., None, None, None].unbind(1)
        x = (x * brightness).clamp(0, 1)
        x = torch.lerp(self._greyed(x).mean((-2, -1), keepdim=True), x, contrast).clamp(0, 1)
        return torch.lerp(self._greyed(x), x, saturation).clamp(0, 1)

    def _greyed(self, x: Tensor) -> Tensor:
        return (x * self._grey).sum(1, keepdim=True)
