"""What a checkpoint says about itself besides its weights: typed, checked in shape and range."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from covpool._errors import CovpoolError
from covpool.models import Architecture, AttachedArchitecture, InputSettings

LARGEST_IMAGE = 16_384  # pixels on a side
LARGEST_WIDTH = 1_000_000  # of a layer, classes included

Side = Annotated[int, Field(ge=1, le=LARGEST_IMAGE)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]

PLAIN_WORDS = {
    "missing": "is missing",
    "union_tag_not_found": "has no `kind`",
    "extra_forbidden": "is not a known field",
    "unexpected_keyword_argument": "is not a known field",
}


class Described(BaseModel):
    """The base of all parts of a description: immutable, without conversions, finite numbers only."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class Preprocessing(Described):
    """How an image becomes the input of a network in evaluation: resize, central crop, normalize.

    A crop fraction is `size` over the shorter side in `resize`.

    Attributes:
        size: Side of the square input, in pixels.
        resize: What an image is resized to before the crop: (shorter side,), (height, width), or () for no resize.
        mean: Mean of the red, green and blue values in [0, 1]; ImageNet's by default.
        std: Standard deviation of the same values.
        interpolation: Filter of the resize.
    """

    size: Side = 224
    resize: Annotated[tuple[Side, ...], Field(max_length=2)] = (256,)
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[Positive, Positive, Positive] = (0.229, 0.224, 0.225)
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"

    def input_settings(self) -> InputSettings:
        """The same settings for a network."""
        return InputSettings(**self.model_dump())


class EvaluationSettings(Described):
    """How the training run evaluated the network, so that an evaluation of the checkpoint repeats it.

    Attributes:
        crops: 1 (central) or 10 (corners and center, and the same flipped).
        flip: Whether the scores of an image and of its flipped copy are averaged.
        precision: Precision of the forward pass; "bf16" and "fp16" are autocast.
    """

    crops: Literal[1, 10] = 1
    flip: bool = False
    precision: Literal["32", "bf16", "fp16"] = "32"


class DataSplit(Described):
    """Which images a network was trained and tested on.

    Attributes:
        name: Name of the data set.
        root: Folder of the data set, as the training run was given it.
        train_on: Part of the data set that was trained on.
        test_on: Part of the data set that was tested on.
        split: Number of the official split, for data sets with several.
        split_seed: Seed of a random split, or of validation images that are drawn at random; None if nothing is.
        split_fraction: Fraction of the images held out by a random split.
        validation_fraction: Fraction of the training images held out at random, to choose the best epoch on.
        images: Number of images by part, such as {"train": 5994, "test": 5794}.
        fingerprints: Hash of the file list by part.
    """

    name: str
    root: str = ""
    train_on: str = "train"
    test_on: str = "test"
    split: Count = 1
    split_seed: Count | None = None
    split_fraction: Annotated[float, Field(gt=0, lt=1)] | None = None
    validation_fraction: Annotated[float, Field(gt=0, lt=1)] | None = None
    images: dict[str, Count] = {}
    fingerprints: dict[str, str] = {}


class TrainingRecord(Described):
    """The state of the training run when the checkpoint was saved, and its results.

    Attributes:
        recipe: Settings of the run, as the recipe writes them.
        epoch: Number of finished epochs.
        step: Number of finished optimizer steps.
        metrics: Results of the last evaluation, None where a value was not finite.
        notes: Anything else that was saved.
    """

    recipe: dict[str, JsonValue] | None = None
    epoch: Count | None = None
    step: Count | None = None
    metrics: dict[str, Annotated[float, Field(allow_inf_nan=True)] | None] = {}
    notes: dict[str, JsonValue] = {}


class Description(Described):
    """Everything in a checkpoint but the weights.

    Attributes:
        architecture: How the network is built; None for a network put together by hand.
        class_names: One name per class, or None.
        preprocessing: How images become inputs; None if the network was saved without it.
        evaluation: How training evaluated the network; None for a network that was saved by hand.
        data: What the network was trained on, None if that is not known.
        training: The training run, None for a network that was saved by hand.
        origin: Whose checkpoint the network was imported from, None for our own.
        versions: Versions of the libraries that wrote the file.
        channels_last: Whether the weights are stored in torch's channels-last memory format.
    """

    architecture: Annotated[Architecture, Field(discriminator="kind")] | None
    class_names: tuple[str, ...] | None = None
    preprocessing: Preprocessing | None = None
    evaluation: EvaluationSettings | None = None
    data: DataSplit | None = None
    training: TrainingRecord | None = None
    origin: str | None = None
    versions: dict[str, str] = {}
    channels_last: bool = False

    @model_validator(mode="after")
    def _check_sizes(self) -> "Description":
        if self.architecture is None:
            return self
        sizes = layer_sizes(self.architecture)
        if isinstance(self.architecture, AttachedArchitecture):
            side = self.architecture.input_size
            sizes += [("input_size", one) for one in (side if isinstance(side, tuple) else (side,)) if one is not None]
        names, classes = self.class_names, self.architecture.num_classes
        if names is not None and len(names) != classes:
            raise ValueError(f"`class_names` must have one name per class, {classes}; got {len(names)}")
        for key, size in sizes:
            if not 1 <= size <= LARGEST_WIDTH:
                raise ValueError(f"`architecture.{key}` must be between 1 and {LARGEST_WIDTH:,}; got {size}")
        return self


def layer_sizes(architecture: Architecture | None) -> list[tuple[str, int]]:
    """The widths of layers that an architecture names, each with the name of its field."""
    keys = [] if architecture is None else ["num_classes"]
    if isinstance(architecture, AttachedArchitecture):
        keys += ["reduce_to", "head_layers"]
    found: list[tuple[str, int]] = []
    for key in keys:
        value = getattr(architecture, key)
        found += [(key, size) for size in (value if isinstance(value, tuple) else (value,)) if isinstance(size, int)]
    return found


def option_sizes(architecture: Architecture | None) -> list[tuple[str, int]]:
    """The integers among the options of an architecture, each with its name. Seeds are no sizes."""
    found: list[tuple[str, int]] = []
    for table in ("pool_options", "backbone_options"):
        for key, value in (getattr(architecture, table, None) or {}).items():
            values = value if isinstance(value, list) else [value]
            found += [(f"{table}.{key}", size) for size in values if isinstance(size, int) and key != "seed"]
    return found


def one_line(error: ValidationError) -> CovpoolError:
    """The first complaint of pydantic in one line: the field, what is expected of it, and what came."""
    first: Any = error.errors(include_url=False)[0]
    reason = PLAIN_WORDS.get(first["type"], str(first["msg"]).removeprefix("Value error, "))
    place = [str(part) for part in first["loc"] if part not in ("attach", "model")]  # the kinds of an architecture
    got = "" if first["type"] in (*PLAIN_WORDS, "value_error") else f"; got {_short(first['input'])}"
    return CovpoolError(f"`{'.'.join(place)}`: {reason}{got}" if place else f"{reason}{got}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
