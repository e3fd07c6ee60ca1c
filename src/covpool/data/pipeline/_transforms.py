"""How an image becomes an input: the table `augment` of a recipe as torchvision transforms."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import v2

from covpool._errors import CovpoolError
from covpool.data._images import BrokenImage
from covpool.data._settings import ResolvedAugment
from covpool.io import Preprocessing

LARGEST_AREA = 2**26  # pixels of a resized image whose sides differ much; 200 MB
Crops = Literal[1, 10]
Transform = Callable[[Image.Image], Tensor]

# Principal components of the colors of ImageNet in [0, 1] (Krizhevsky et al. 2012, section 4.1, without the values).
PCA_VALUES = torch.tensor([0.2175, 0.0188, 0.0045])
PCA_VECTORS = torch.tensor([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])


def train_transform(augment: ResolvedAugment, *, resized: bool = False) -> Transform:
    """The transform of training images: resize, crop, flip, color, then normalize to (3, size, size).

    Random numbers come from torch's global generator. A random-resized crop is taken from the original image, other
    crops from the resized one.

    Args:
        augment: Settings of the recipe.
        resized: Whether the image has already been resized by `resize`.
    """
    steps: list[Callable[..., Any]] = []
    if resizes_first(augment) and not resized:
        steps.append(resize(augment))
    if augment.crop == "random_resized":
        steps.append(v2.RandomResizedCrop(augment.size, augment.scale, augment.ratio, _filter(augment)))
    elif augment.scales:
        low, high = augment.scales
        steps += [partial(check_area, side=high), v2.RandomResize(low, high + 1, _filter(augment))]
    if augment.crop == "random":
        steps.append(v2.RandomCrop(augment.size, pad_if_needed=True))
    elif augment.crop == "center":
        steps.append(v2.CenterCrop(augment.size))
    if augment.flip:
        steps.append(v2.RandomHorizontalFlip())
    if augment.randaugment:
        steps.append(v2.RandAugment(magnitude=augment.randaugment))
    if augment.color_jitter:
        steps.append(v2.ColorJitter(*3 * [augment.color_jitter]))
    steps.append(to_tensor)
    if augment.pca_noise:
        steps.append(partial(add_pca_noise, deviation=augment.pca_noise))
    return v2.Compose([*steps, v2.Normalize(augment.mean, augment.std)])


def eval_transform(augment: ResolvedAugment, *, crops: Crops = 1, resized: bool = False) -> Transform:
    """The transform of test images: resize, central crop, normalize.

    Args:
        augment: Settings of the recipe.
        crops: 10 gives (10, 3, size, size): corners and center, and the same of the flipped image.
        resized: Whether the image has already been resized by `resize`.
    """
    if crops == 10 and augment.resize:
        check_ten_crops(augment.size, augment.resize[0], augment.resize[-1])
    steps = [] if resized else [resize(augment)]
    cut = v2.CenterCrop(augment.size) if crops == 1 else partial(ten_crops, size=augment.size)
    return v2.Compose([*steps, cut, to_tensor, v2.Normalize(augment.mean, augment.std)])


def preprocessing(augment: ResolvedAugment) -> Preprocessing:
    """What a checkpoint keeps, so that images can be prepared as in the evaluation.

    >>> preprocessing(ResolvedAugment(size=112, resize=(128,))).resize
    (128,)
    """
    return Preprocessing(**{name: getattr(augment, name) for name in Preprocessing.model_fields})


def augment_of(saved: Preprocessing) -> ResolvedAugment:
    """The augmentation settings with which evaluation prepares images in this way."""
    return ResolvedAugment(**saved.model_dump())


def resizes_first(augment: ResolvedAugment) -> bool:
    """Whether every training image is resized in the same way before anything random happens."""
    return augment.crop != "random_resized" and not augment.scales


def resize(augment: ResolvedAugment) -> Callable[[Image.Image], Image.Image]:
    """Resize to a shorter side or to (height, width); an empty `augment.resize` leaves the image unchanged."""
    if len(augment.resize) > 2:
        raise CovpoolError(
            f"`augment.resize` must be [shorter side], [height, width] or []; got {list(augment.resize)}"
        )
    if not augment.resize:
        return v2.Identity()
    to_size = v2.Resize(list(augment.resize), _filter(augment))
    return to_size if len(augment.resize) == 2 else v2.Compose([partial(check_area, side=augment.resize[0]), to_size])


def _filter(augment: ResolvedAugment) -> v2.InterpolationMode:
    """The interpolation as torchvision's enum; not all its releases accept strings."""
    return v2.InterpolationMode(augment.interpolation)


def check_area(image: Image.Image, side: int) -> Image.Image:
    """Refuse an image as broken if resizing its shorter side to `side` would take too much memory."""
    short, long = sorted(image.size)
    length = round(side * long / short)
    if length * side > max(LARGEST_AREA, 4 * side**2):
        raise BrokenImage("an image", f"too narrow: {short} x {long} pixels would be resized to {side} x {length}")
    return image


def to_tensor(image: Image.Image | tuple[Image.Image, ...]) -> Tensor:
    """One image as float32 in [0, 1], (3, h, w), or several stacked, (k, 3, h, w)."""
    if isinstance(image, tuple):
        return torch.stack([to_tensor(one) for one in image])
    return v2.functional.to_dtype(v2.functional.pil_to_tensor(image), torch.float32, scale=True)


def ten_crops(image: Image.Image, size: int) -> tuple[Image.Image, ...]:
    """The four corners and the center, and the same of the flipped image."""
    check_ten_crops(size, image.height, image.width)
    return v2.functional.ten_crop(image, size)


def check_ten_crops(size: int, height: int, width: int) -> None:
    """Reject an image smaller than the crop."""
    if min(height, width) < size:
        raise CovpoolError(
            f"ten crops of {size} pixels need images at least as large; got {height} x {width}: "
            f"set augment.resize = [{size}] or larger"
        )


def add_pca_noise(x: Tensor, deviation: float) -> Tensor:  # (3, h, w)
    """AlexNet's noise: add V (alpha * lambda), alpha ~ N(0, deviation^2), to all pixels of an image in [0, 1]."""
    alpha = torch.randn(3) * deviation
    return x + (PCA_VECTORS @ (alpha * PCA_VALUES))[:, None, None]
