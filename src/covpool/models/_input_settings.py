"""How a pre-trained backbone expects its images, according to its own library."""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from torch import nn

from covpool._errors import require
from covpool.models._small_stem import SMALL_IMAGE, SMALL_STEM

logger = logging.getLogger(__name__)

Interpolation = Literal["bilinear", "bicubic"]
Color = tuple[float, float, float]

IMAGENET_MEAN: Color = (0.485, 0.456, 0.406)
IMAGENET_STD: Color = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class InputSettings:
    """How test images become the input of a network: resize, crop the center, normalize.

    Attributes:
        size: side of the input in pixels.
        resize: (shorter side,) or (height, width) before the crop, or () for no resize.
        mean, std: of the normalization, for images in [0, 1].
        interpolation: of the resize.
    """

    size: int = 224
    resize: tuple[int, ...] = (256,)
    mean: Color = IMAGENET_MEAN
    std: Color = IMAGENET_STD
    interpolation: Interpolation = "bilinear"

    def as_timm(self) -> dict[str, Any]:
        """The same settings as timm's models have them in `pretrained_cfg`.

        >>> round(InputSettings().as_timm()["crop_pct"], 6)
        0.875
        """
        shared = {"mean": self.mean, "std": self.std, "interpolation": self.interpolation}
        mode = "squash" if len(self.resize) == 2 else "center"
        side = min(self.resize, default=self.size)
        fraction = math.nextafter(self.size / side, 0)  # timm rounds size / fraction down, to `side`
        return {"input_size": (3, self.size, self.size), "crop_pct": fraction, "crop_mode": mode, **shared}


def input_settings(backbone: str, weights: str | Path | None = None) -> InputSettings:
    """Look up the input settings of a backbone by its name.

    Args:
        backbone: Name of a model of timm ("resnet50"), torchvision ("torchvision/resnet50") or covpool, with or
            without inserted blocks ("resnet50+se").
        weights: File of its weights. torchvision publishes several sets of weights for one model, with different
            settings; the name of the file tells which.

    >>> input_settings("torchvision/mobilenet_v2", "mobilenet_v2-b0353104.pth").resize
    (256,)
    """
    name = backbone if ":" in backbone else backbone.partition("+")[0]  # without inserted blocks
    library, _, short = name.rpartition("/")
    if library == "covpool":
        return InputSettings(SMALL_IMAGE, (SMALL_IMAGE,)) if short.endswith(SMALL_STEM) else InputSettings()
    if library == "torchvision":
        return _torchvision(short, weights)
    timm = require("timm", "models")
    config = timm.get_pretrained_cfg(name) if timm.is_model(name) else None
    return InputSettings() if config is None else _from_timm(config.to_dict())


def settings_of(model: nn.Module, source: object, weights: str | Path | None) -> InputSettings:
    """Return the input settings of a model that has been built.

    Args:
        model: The model. Those of timm know their settings.
        source: The name it was built by; anything else says nothing.
        weights: File of its weights, as for `input_settings`.
    """
    config = getattr(model, "pretrained_cfg", None)
    if isinstance(config, Mapping) and "input_size" in config:
        return _from_timm(config)
    return input_settings(source, weights) if isinstance(source, str) else InputSettings()


def _from_timm(config: Mapping[str, Any]) -> InputSettings:
    size = config["input_size"][-1]
    side = int(size / (config.get("crop_pct") or 1.0))  # timm rounds down
    mode = config.get("crop_mode", "center")
    if mode == "border":
        logger.warning(
            "%s was evaluated on whole images with a border; covpool crops the center instead",
            config.get("architecture", "the backbone"),
        )
    return InputSettings(
        size=size,
        resize=(side, side) if mode == "squash" else (side,),
        mean=_color(config["mean"]),
        std=_color(config["std"]),
        interpolation=_interpolation(config["interpolation"]),
    )


def _torchvision(name: str, weights: str | Path | None) -> InputSettings:
    models = require("torchvision", "models").models
    if name not in models.list_models(module=models):
        return InputSettings()
    entries = models.get_model_weights(name)
    file = None if weights is None else Path(weights).name
    entry = next((entry for entry in entries if entry.url.rpartition("/")[2] == file), entries.DEFAULT)
    preset: Any = entry.transforms()
    return InputSettings(
        size=preset.crop_size[0],
        resize=(preset.resize_size[0],),
        mean=_color(preset.mean),
        std=_color(preset.std),
        interpolation=_interpolation(preset.interpolation.value),
    )


def _color(values: Any) -> Color:
    red, green, blue = map(float, values)
    return red, green, blue


def _interpolation(name: str) -> Interpolation:
    """The library's interpolation; the rare ones that covpool does not have (lanczos, random) become bicubic."""
    return cast(Interpolation, name) if name in ("bilinear", "bicubic") else "bicubic"
