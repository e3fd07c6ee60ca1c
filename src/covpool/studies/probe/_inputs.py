"""What all trainings of a probe share: the backbone, the heads and the feature maps."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch

from covpool._errors import CovpoolError
from covpool._progress import OnProgress
from covpool.data import Images
from covpool.data.pipeline import EvalBatches
from covpool.data.sets import Splits
from covpool.engine.evaluation import cached, file_digest, file_marks
from covpool.models import Backbone, make_features
from covpool.studies._feature_maps import DTYPES, Maps, compute_maps
from covpool.studies.probe._fit import HeadSpec
from covpool.studies.probe._settings import Probe, chosen_pools

IMAGES = 64  # images per batch of the backbone
# Settings that a result does not depend on, or that are recorded otherwise: pool, seed, digest of the weights.
NOT_IN_KEY = ("pools", "seeds", "keep", "cache", "weights")


def make_backbone(settings: Probe) -> Backbone:
    """Build the backbone, without its pool and classifier."""
    features = make_features(
        settings.backbone,
        keep_last_stride=settings.keep_last_stride,
        backbone_options=settings.backbone_options,
        pretrained=settings.pretrained,
        weights=settings.weights or None,
    )
    assert isinstance(features, Backbone)
    return features


def make_heads(settings: Probe, backbone: Backbone, classes: int) -> dict[str, HeadSpec]:
    """Describe the head of every pool, and build each once to find mistakes in options before the work begins."""
    (channels,) = backbone.channels
    width = settings.reduce_to or None
    heads = {
        label: HeadSpec(name, options, channels, backbone.layout, width, classes)
        for label, (name, options) in chosen_pools(settings).items()
    }
    for label, head in heads.items():
        try:
            head.make()
        except (TypeError, ValueError) as error:
            raise CovpoolError(f"`pools`: {label} cannot be built: {error}") from error
    return heads


def make_maps(
    settings: Probe, splits: Splits, backbone: Backbone, device: torch.device, on_progress: OnProgress
) -> tuple[Maps, Maps]:
    """Compute the feature maps of the training images and their flipped copies, and of the test images."""

    def compute(images: Images, what: str, flipped: bool) -> Maps:
        return compute_maps(
            backbone,
            EvalBatches(images, settings.augment, settings.data, batch_size=IMAGES, device=device),
            flipped=flipped,
            dtype=DTYPES[settings.maps],
            keep_on=device if settings.keep == "device" else "cpu",
            on_progress=lambda _, done, total: on_progress(f"feature maps, {what}", done, total),
        )

    def kept(images: Images, what: str, flipped: bool) -> Maps:
        key = {**_features(settings), "images": file_marks(images.paths), "mirrored": flipped}
        maps = cached(folder, key, lambda: compute(images, what, flipped), Maps)
        return maps.to(device, keep=settings.keep)

    folder = Path(settings.cache) if settings.cache else None
    return kept(splits.train, "training", True), kept(splits.test, "test", False)


def _features(settings: Probe) -> dict[str, Any]:
    """Return everything that the features of an image depend on."""
    told = settings.model_dump(mode="json")
    digest = file_digest(Path(settings.weights)) if settings.weights else ""
    names = ("backbone", "backbone_options", "pretrained", "keep_last_stride", "maps", "augment")
    return {"weights": digest, **{name: told[name] for name in names}}


def settings_key(settings: Probe, splits: Splits, device: torch.device) -> str:
    """Return a digest of everything that a result depends on, except the pool and the seed."""
    told: dict[str, Any] = settings.model_dump(mode="json")
    told = {name: value for name, value in told.items() if name not in NOT_IN_KEY}
    told |= _features(settings)  # includes the digest of the weights, which does not depend on their path
    told["data"] = {name: told["data"][name] for name in ("name", "split", "train_on", "test_on", "broken")}
    told["images"] = [[path.name for path in images.paths] for images in (splits.train, splits.test)]
    told["device"] = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
