"""What all pools of a probe share: the backbone, the heads and the feature maps."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from covpool._progress import OnProgress
from covpool.data import Images, file_fingerprints
from covpool.data.pipeline import EvalBatches
from covpool.data.sets import Splits
from covpool.engine import with_progress
from covpool.engine.evaluation import cached, file_digest, image_marks
from covpool.models import Backbone, InputSettings, make_features
from covpool.studies._feature_maps import DTYPES, Maps, compute_maps, say_left_out
from covpool.studies._pool_labels import pca_options
from covpool.studies._pool_spec import PoolSpec
from covpool.studies.probe._settings import Probe, chosen_pools

IMAGES = {"cpu": 16}  # images per batch of the backbone; small batches stay in the cache of a CPU
# Settings that a result does not depend on, or that are recorded otherwise: pool, seed, digest of the weights.
NOT_IN_KEY = ("pools", "seeds", "keep", "cache", "weights", "size")
ONLY_SGD = (
    *("epochs", "batch_size", "lr", "extend_lr", "refine_lr", "held_out", "folds", "momentum", "weight_decay"),
    *("warmup_epochs", "clip_norm", "head_factor"),
)

Measure = Callable[[Callable[[], None], torch.device], dict[str, float | None]]


@dataclass(frozen=True)
class ProbeInputs:
    """What all pools share."""

    probe: Probe
    heads: dict[str, PoolSpec]
    train: Maps
    test: Maps
    key: str


def make_backbone(settings: Probe) -> Backbone:
    """Build the backbone, without its pool and classifier."""
    features = make_features(
        settings.backbone,
        keep_last_stride=settings.keep_last_stride,
        backbone_options=settings.backbone_options,
        pretrained=settings.uses_pretrained,
        weights=settings.weights or None,
    )
    assert isinstance(features, Backbone)
    return features


def make_heads(settings: Probe, backbone: Backbone, classes: int) -> dict[str, PoolSpec]:
    """Describe the head of every pool, and build each once to find mistakes in options before the work begins."""
    (channels,) = backbone.channels
    convex = settings.classifier == "logistic"
    heads = {}
    for label, (name, options) in chosen_pools(settings).items():
        trained = {"reduce_to": settings.reduce_to or None, "reduce_kind": "conv_bn_relu"}
        reduction = pca_options(name, channels, settings.reduce_to) if convex else trained
        heads[label] = PoolSpec(name, {**reduction, **options}, channels, backbone.layout, classes)
        heads[label].make()
    return heads


def resolve_inputs(settings: Probe, own: InputSettings) -> Probe:
    """Fill in how an image becomes an input: as the backbone expects it where the settings do not say otherwise.

    A warning says if the settings state another normalization than that of the weights.
    """
    if settings.weights or settings.uses_pretrained:
        settings.augment.warn_if_normalized_otherwise(own)
    stated = settings.augment.changed(size=settings.size or settings.augment.size)
    return settings.changed(augment=dict(stated.resolved(own)))


def make_maps(
    settings: Probe, splits: Splits, backbone: Backbone, device: torch.device, on_progress: OnProgress
) -> tuple[Maps, Maps]:
    """Compute the feature maps of the training images and their flipped copies, and of the test images."""
    augment = settings.augment.complete()
    size = IMAGES.get(device.type, 64)
    if device.type == "cpu":
        backbone.to(memory_format=torch.channels_last)  # halves the time of MobileNetV2

    def compute(images: Images, what: str, flipped: bool) -> Maps:
        batches = EvalBatches(images, augment, settings.data, batch_size=size, device=device, on_progress=on_progress)
        return compute_maps(
            backbone,
            with_progress(batches, f"feature maps, {what}", on_progress),
            len(images),
            flipped=flipped,
            dtype=DTYPES[settings.maps],
            keep_on=device if settings.keep == "device" else "cpu",
        )

    def kept(images: Images, what: str, flipped: bool) -> Maps:
        marks = {"images": image_marks(images), "broken": settings.data.broken}
        key = {**_features(settings), **marks, "mirrored": flipped}
        maps = cached(folder, key, lambda: compute(images, what, flipped), Maps)
        say_left_out(maps, images, what)
        return maps.to(device, keep=settings.keep)

    folder = Path(settings.cache) if settings.cache else None
    return kept(splits.train, "training", True), kept(splits.test, "test", False)


def _features(settings: Probe) -> dict[str, Any]:
    """Return everything that the features of an image depend on."""
    told = settings.model_dump(mode="json")
    digest = file_digest(Path(settings.weights)) if settings.weights else ""
    names = ("backbone", "backbone_options", "keep_last_stride", "maps", "augment")
    return {"weights": digest, "pretrained": settings.uses_pretrained, **{name: told[name] for name in names}}


def settings_key(settings: Probe, splits: Splits, device: torch.device) -> str:
    """Return a digest of everything that a result depends on, except the pool and the seed."""
    told: dict[str, Any] = settings.model_dump(mode="json")
    left_out = (*NOT_IN_KEY, *(ONLY_SGD if settings.classifier == "logistic" else ()))
    told = {name: value for name, value in told.items() if name not in left_out}
    told |= _features(settings)  # includes the digest of the weights, which does not depend on their path
    told["data"] = {name: told["data"][name] for name in ("name", "split", "train_on", "test_on", "broken")}
    told["images"] = [file_fingerprints(images, "contents") for images in (splits.train, splits.test)]
    told["device"] = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
