"""Color operations on a batch, compared with torchvision on single images."""

import torch
from torchvision.transforms import v2

from covpool.data._settings import ResolvedAugment
from covpool.data.pipeline import _boxes as boxes
from covpool.data.pipeline._color import ColorOperations
from covpool.data.pipeline._transforms import PCA_VALUES, PCA_VECTORS

CPU = torch.device("cpu")


def batch() -> torch.Tensor:
    return torch.rand(4, 3, 6, 5, generator=torch.Generator().manual_seed(0))


def draws() -> boxes.Draws:
    found = boxes.draw(4, 0, 0)
    return found._replace(color=found.color.float())


def test_normalization_matches_torchvision() -> None:
    augment = ResolvedAugment()
    expected = v2.functional.normalize(batch(), list(augment.mean), list(augment.std))
    torch.testing.assert_close(ColorOperations(augment, CPU).normalize(batch()), expected)
    torch.testing.assert_close(ColorOperations(augment, CPU).augment(batch(), draws()), expected)


def test_jitter_matches_brightness_contrast_saturation_of_torchvision() -> None:
    augment = ResolvedAugment(color_jitter=0.4, mean=(0, 0, 0), std=(1, 1, 1))
    x = ColorOperations(augment, CPU).augment(batch(), draws())
    for one, image, uniform in zip(x, batch(), draws().color, strict=True):
        brightness, contrast, saturation = (0.6 + 0.8 * uniform).tolist()
        expected = v2.functional.adjust_brightness(image, brightness)
        expected = v2.functional.adjust_contrast(expected, contrast)
        expected = v2.functional.adjust_saturation(expected, saturation)
        torch.testing.assert_close(one, expected, rtol=0, atol=1e-5)


def test_noise_shifts_colors_along_the_principal_axes() -> None:
    augment = ResolvedAugment(pca_noise=0.1, mean=(0, 0, 0), std=(1, 1, 1))
    shifts = ColorOperations(augment, CPU).augment(batch(), draws()) - batch()
    for shift, normal in zip(shifts, draws().noise, strict=True):
        expected = sum(0.1 * normal[i] * PCA_VALUES[i] * PCA_VECTORS[:, i] for i in range(3))
        torch.testing.assert_close(shift, expected[:, None, None].expand_as(shift), rtol=1e-4, atol=1e-6)
