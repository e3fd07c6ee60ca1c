"""What a recipe says of images: which set, how they are cut, how they are varied."""

import math
from dataclasses import dataclass
from typing import Literal

from covpool._check import check_positive_int
from covpool._errors import CovpoolError

STRONGEST = 30  # of RandAugment's magnitudes

Cache = Literal["none", "ram", "gpu"]


@dataclass(frozen=True, kw_only=True)
class Data:
    """A data set in its owners' layout and how its images are read."""

    name: str = "folder"  # one of data.open_data's
    root: str = ""
    split: int = 1  # DTD has ten
    train_on: Literal["train", "train+val"] = "train"
    test_on: Literal["test", "val"] = "test"  # sets with one held-out part have it under both names
    broken: Literal["skip", "refuse"] = "refuse"  # a picture that cannot be read
    cache: Cache = "none"  # decode once, into memory or onto the device, where it is then also augmented
    workers: int = 2


@dataclass(frozen=True, kw_only=True)
class Augment:
    """From picture to input, in training and test; the mean and deviation are ImageNet's unless said otherwise."""

    size: int = 224  # of the input
    resize: tuple[int, ...] = (256,)  # before a crop: (shorter side,) or (height, width); () = as it is
    crop: Literal["random_resized", "random", "center"] = "random_resized"  # in training; the test's is central
    scale: tuple[float, float] = (0.08, 1.0)  # of "random_resized": area
    ratio: tuple[float, float] = (0.75, 4 / 3)  # and aspect
    scales: tuple[int, ...] = ()  # shorter side drawn from [low, high] before a random crop (VGG's scale jitter)
    flip: bool = True
    color_jitter: float = 0.0
    pca_noise: float = 0.0  # AlexNet's colour noise, standard deviation
    randaugment: int = 0  # magnitude; 0 = none
    mixup: float = 0.0  # alpha of its Beta distribution
    cutmix: float = 0.0
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"


def check_data(data: Data) -> None:
    """Refuse numbers that cannot work, naming the setting."""
    check_not_negative("data.workers", data.workers)


def check_augment(augment: Augment) -> None:
    """Refuse numbers that make no input of a picture, naming the setting.

    >>> check_augment(Augment(size=0))
    Traceback (most recent call last):
    covpool.CovpoolError: `augment.size` must be a positive integer; got 0
    """
    check_positive_int("augment.size", augment.size)
    for i, side in enumerate(augment.resize):
        check_positive_int(f"augment.resize[{i}]", side)
    for name in ("color_jitter", "pca_noise", "mixup", "cutmix"):
        check_not_negative(f"augment.{name}", getattr(augment, name))
    for name in ("scale", "ratio", "scales"):
        bounds = getattr(augment, name)
        if bounds and not (len(bounds) == 2 and 0 < bounds[0] <= bounds[1] < math.inf):
            raise CovpoolError(f"`augment.{name}` must be [low, high], 0 < low <= high; got {list(bounds)}")
    if not 0 <= augment.randaugment <= STRONGEST:
        raise CovpoolError(f"`augment.randaugment` must be in [0, {STRONGEST}]; got {augment.randaugment}")
    if not all(map(math.isfinite, augment.mean)):
        raise CovpoolError(f"`augment.mean` must be finite; got {list(augment.mean)}")
    if not all(0 < deviation < math.inf for deviation in augment.std):
        raise CovpoolError(f"`augment.std` must be more than zero; got {list(augment.std)}")


def check_not_negative(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise CovpoolError(f"`{name}` must be zero or more; got {value}")
