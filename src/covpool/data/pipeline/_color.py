"""Color of a batch on the device: jitter, AlexNet's noise, normalization."""

import torch
from torch import Tensor

from covpool.data._settings import ResolvedAugment
from covpool.data.pipeline._boxes import Draws
from covpool.data.pipeline._transforms import PCA_VALUES, PCA_VECTORS

GRAY = (0.2989, 0.587, 0.114)  # weights of red, green and blue, as in torchvision


class ColorOperations:
    """The color operations of a recipe on batches (b, 3, h, w) in [0, 1]; their constants are kept on the device."""

    def __init__(self, augment: ResolvedAugment, device: torch.device) -> None:
        self._jitter, self._noise = augment.color_jitter, augment.pca_noise
        factors = [1 / std for std in augment.std]
        shifts = [-mean / std for mean, std in zip(augment.mean, augment.std, strict=True)]
        constants = torch.tensor([factors, shifts, GRAY], device=device)
        self._factor, self._shift, self._gray = constants[:, :, None, None]
        self._directions = (PCA_VECTORS * PCA_VALUES).mT.to(device)  # one per row

    def normalize(self, x: Tensor) -> Tensor:
        """(x - mean) / std, as one operation: x (1 / std) + (-mean / std)."""
        return torch.addcmul(self._shift, x, self._factor)

    def augment(self, x: Tensor, draws: Draws) -> Tensor:
        """Add the jitter and noise of the recipe, then normalize, in the order of `train_transform`."""
        if self._jitter:
            x = self._jitter_color(x, draws.color)
        if self._noise:
            x = x + (self._noise * draws.noise @ self._directions)[..., None, None]
        return self.normalize(x)

    def _jitter_color(self, x: Tensor, uniform: Tensor) -> Tensor:
        """Scale brightness, contrast and saturation by factors in 1 +- jitter. (torchvision's order is random.)"""
        low, high = max(0.0, 1 - self._jitter), 1 + self._jitter
        brightness, contrast, saturation = (low + (high - low) * uniform)[..., None, None, None].unbind(1)
        x = (x * brightness).clamp(0, 1)
        x = torch.lerp(self._to_gray(x).mean((-2, -1), keepdim=True), x, contrast).clamp(0, 1)
        return torch.lerp(self._to_gray(x), x, saturation).clamp(0, 1)

    def _to_gray(self, x: Tensor) -> Tensor:
        return (x * self._gray).sum(1, keepdim=True)
