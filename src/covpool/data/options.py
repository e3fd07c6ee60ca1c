"""What a recipe says of images: which set, how they are cut, how they are varied."""

from dataclasses import dataclass
from typing import Literal

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
