"""The settings about images: which data set, how its images are cropped, how they are augmented."""

import logging
import math
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, ValidationInfo
from pydantic import field_validator as check_field

from covpool._errors import CovpoolError, check_utf8
from covpool._settings import Seed, Settings, Side

if TYPE_CHECKING:
    from covpool.io import Preprocessing
    from covpool.models import InputSettings

logger = logging.getLogger(__name__)

LEAST = 1e-6  # of the area and the aspect ratio of a random crop
MOST_WORKERS = 256  # processes that read images

Cache = Literal["none", "ram", "gpu"]
Color = tuple[float, float, float]
Deviation = tuple[PositiveFloat, PositiveFloat, PositiveFloat]
Interpolation = Literal["bilinear", "bicubic"]


class Data(Settings):
    """A data set in its owners' layout, and how its images are read."""

    name: str = "folder"
    """Name of the data set, which implies its layout on disk: folder, cub, imagenet and others."""
    root: str = ""
    """Folder of the data set."""
    split: int = 1
    """Number of the split, for data sets with several. DTD has ten."""
    split_seed: Seed | None = None
    """Seed of the split of a flat folder (CLASS/IMAGE, no train and test). Unset: that of `init.weights`, else 0."""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Fraction of each class of a flat folder to test on. Unset: that of `init.weights`, else 0.2."""
    validation_fraction: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Fraction of each class of the training images to hold out, to choose the best epoch on. Unset: the val images of
    a data set that is trained on train and tested on test, else none."""
    train_on: Literal["train", "train+val"] = "train"
    """Images to train on."""
    test_on: Literal["test", "val"] = "test"
    """Images to evaluate on. Data sets with one held-out set accept both names."""
    compare: Literal["names", "sizes", "contents"] = "sizes"
    """What a resumed run compares of its images with those of its start: the names and classes of the files, also
    their sizes, or also their contents, which reads every file."""
    broken: Literal["skip", "refuse"] = "refuse"
    """What to do with an image that cannot be read."""
    cache: Cache = "none"
    """Where to keep decoded images: in memory, or on the GPU, which then also augments them."""
    workers: Annotated[int, Field(ge=0, le=MOST_WORKERS)] = 2
    """Number of processes that read images."""

    @check_field("root")
    @classmethod
    def _check_root(cls, root: str) -> str:
        check_utf8("`data.root`", root)
        return root


class Augment(Settings):
    """How an image becomes an input, in training and evaluation. What is not set is as the backbone expects it."""

    size: Side | None = None
    """Height and width of the input; the backbone's own when it is not set."""
    resize: tuple[Side, ...] | None = None
    """Size before the crop: [shorter side] or [height, width]; [] keeps the size of the image. When it is not set, the
    crop keeps the fraction of the image that the backbone expects."""
    crop: Literal["random_resized", "random", "center"] = "random_resized"
    """Crop in training. Evaluation uses the center crop."""
    scale: tuple[float, float] = (0.08, 1.0)
    """Range of the area of a "random_resized" crop, as a fraction of the image."""
    ratio: tuple[float, float] = (0.75, 4 / 3)
    """Range of the aspect ratio of a "random_resized" crop."""
    scales: tuple[Side, ...] = ()
    """Range [low, high] that the shorter side is drawn from before a "random" crop (VGG's scale jitter)."""
    flip: bool = True
    """Whether training images are flipped at random."""
    color_jitter: NonNegativeFloat = 0.0
    """Strength of the jitter of brightness, contrast and saturation."""
    pca_noise: NonNegativeFloat = 0.0
    """Standard deviation of AlexNet's color noise."""
    randaugment: Annotated[int, Field(ge=0, le=30)] = 0
    """Magnitude of RandAugment; 0 turns it off."""
    mixup: NonNegativeFloat = 0.0
    """Parameter alpha of mixup's Beta distribution; 0 turns it off."""
    cutmix: NonNegativeFloat = 0.0
    """Parameter alpha of CutMix's Beta distribution; 0 turns it off."""
    mean: Color | None = None
    """Mean of each color channel; the backbone's own when it is not set."""
    std: Deviation | None = None
    """Standard deviation of each color channel; the backbone's own when it is not set."""
    interpolation: Interpolation | None = None
    """Interpolation when an image is resized; the backbone's own when it is not set."""

    @check_field("scale", "ratio", "scales")
    @classmethod
    def _check_range(cls, bounds: tuple[float, ...], info: ValidationInfo) -> tuple[float, ...]:
        if bounds and not (len(bounds) == 2 and LEAST <= bounds[0] <= bounds[1] <= 1 / LEAST):
            raise CovpoolError(
                f"`augment.{info.field_name}` must be [low, high] with {LEAST:g} <= low <= high <= {1 / LEAST:g}; got "
                f"{list(bounds)}"
            )
        return bounds

    def resolved(self, own: "InputSettings | Preprocessing") -> "ResolvedAugment":
        """Fill in what is not set.

        Args:
            own: What the backbone or the checkpoint expects. A crop of another size keeps its fraction of the image.

        >>> from covpool.models import InputSettings
        >>> Augment(size=320).resolved(InputSettings(size=224, resize=(256,))).resize
        (366,)
        """
        size = self.size or own.size
        filled = {name: getattr(own, name) for name in ("mean", "std", "interpolation")}
        filled |= {"size": size, "resize": tuple(round(side * size / own.size) for side in own.resize)}
        return ResolvedAugment(**filled | {key: value for key, value in self if value is not None})

    def warn_if_normalized_otherwise(self, own: "InputSettings | Preprocessing") -> None:
        """Log a warning if the settings state another normalization than that of the pre-trained weights."""
        for name in ("mean", "std"):
            stated, expected = getattr(self, name), getattr(own, name)
            if stated and not all(map(partial(math.isclose, abs_tol=1e-3), stated, expected)):
                logger.warning(
                    "`augment.%s` = %s differs from %s of the weights: leave it out to use theirs",
                    name,
                    list(stated),
                    list(expected),
                )

    def complete(self) -> "ResolvedAugment":
        """Return the settings of a resolved recipe, all of which are set."""
        return ResolvedAugment(**dict(self))


class ResolvedAugment(Augment):
    """How an image becomes an input, with every setting known; by default as for most networks of ImageNet."""

    size: Side = 224
    resize: tuple[Side, ...] = (256,)
    mean: Color = (0.485, 0.456, 0.406)
    std: Deviation = (0.229, 0.224, 0.225)
    interpolation: Interpolation = "bilinear"
