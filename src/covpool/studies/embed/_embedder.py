"""Networks that embed images: trained ones, and frozen backbones with a pool that starts from the images."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor
from torch.nn.functional import normalize

from covpool._errors import CovpoolError
from covpool._settings import Options, Settings
from covpool.data import Augment, ResolvedAugment
from covpool.data.pipeline import Batch
from covpool.engine import infer, select_rows
from covpool.engine.evaluation import LoadedCheckpoint, represent
from covpool.models import AttachedArchitecture, Backbone, Network, make_features
from covpool.pools import pool_info
from covpool.recipe import read_settings
from covpool.studies._feature_maps import Maps
from covpool.studies._frozen import pooled_vectors, start_from_data, vector_length
from covpool.studies._pool_labels import pca_options
from covpool.studies._pool_spec import PoolSpec

START_IMAGES = 2000  # most images that a pool starts from


class FrozenBackbone(Settings):
    """A backbone that is not trained, and the pool on top of it."""

    IS_TABLE: ClassVar[bool] = False

    backbone: str
    """Name of the backbone: "resnet50" of timm, or "torchvision/resnet50"."""
    pool: str = "isqrt"
    """Name of the pool."""
    pool_options: Options = Field(default_factory=dict)
    """Options of the pool, such as pool_options.iterations=3."""
    width: PositiveInt = 256
    """Channels after the PCA; mfafv gets at most 128. avg, gem, max and kernel, and backbones with fewer channels, have
    no PCA."""
    size: NonNegativeInt = 0
    """Side of the input in pixels; 0 is the backbone's own."""
    weights: str = ""
    """File with weights of the backbone."""
    pretrained: bool = True
    """Whether to download the weights that timm or torchvision offer if `weights` is not set."""


def read_backbone(backbone: str, settings: Iterable[str]) -> FrozenBackbone:
    """Read the settings of a backbone typed as "key=value".

    >>> read_backbone("resnet18", ["pool=gaussian", "width=64"]).width
    64
    """
    return FrozenBackbone(**{**read_settings(settings), "backbone": backbone})


@dataclass(frozen=True, eq=False)
class Vectors:
    """Vectors on the CPU, and which images they belong to."""

    index: Tensor  # (m,)
    values: Tensor  # (m, d), float32


@dataclass(frozen=True, eq=False)
class Embedder:
    """A network that embeds images.

    Attributes:
        network: The network, whose classifier is not used.
        augment: How images are resized, cropped and normalized for it.
        unit_length: Whether vectors are scaled to unit length.
    """

    network: Network
    augment: ResolvedAugment
    unit_length: bool = True

    @staticmethod
    def read(checkpoint: Path, device: str, *, unit_length: bool = True) -> "Embedder":
        """Read the network of a checkpoint."""
        loaded = LoadedCheckpoint.read(checkpoint, device)
        return Embedder(loaded.network, loaded.augment, unit_length)

    def embed(self, batches: Iterable[Batch], count: int) -> Vectors:
        """Embed the images that can be read.

        Args:
            batches: The images, on the device of the network.
            count: The largest number of images in all batches.
        """
        values, done = torch.empty(0), 0
        index: list[Tensor] = []
        for found in infer(self.network, _readable(batches), lambda x: represent(self.network, x)):
            z = self.finish(found.outputs[0])
            if not index:  # one block of memory, because vectors can be long
                values = torch.empty(count, z.shape[1])
            values[done : done + len(z)] = z
            done += len(z)
            index.append(found.batch.index)
        if not index:
            raise CovpoolError("none of the images can be read")
        return Vectors(torch.cat(index), values[:done])

    def finish(self, z: Tensor) -> Tensor:
        """Return vectors in float32, at unit length if the embedder makes them so."""
        return normalize(z.float()) if self.unit_length else z.float()


@dataclass(frozen=True, eq=False)
class StartedEmbedder:
    """An embedder whose pool was started from images, with the features of these images."""

    embedder: Embedder
    maps: Maps
    index: Tensor  # (m,)

    @property
    def length(self) -> int:
        """Length of a vector."""
        return vector_length(self.embedder.network.pool, self.maps)

    def vectors(self) -> Vectors:
        """The vectors of the images that the pool was started from."""
        values = pooled_vectors(self.embedder.network.pool, self.maps)
        return Vectors(self.index, self.embedder.finish(values).cpu())


def start_embedder(
    settings: FrozenBackbone,
    batches: Callable[[ResolvedAugment], Iterable[Batch]],
    *,
    device: str,
    unit_length: bool = True,
) -> StartedEmbedder:
    """Build a frozen backbone with a pool, and start the pool from images: PCA before it, and its words or bases.

    Args:
        settings: The backbone and the pool.
        batches: Gives the images to start from, on the device, prepared as the backbone expects them.
        device: Device of the network.
        unit_length: Whether vectors are scaled to unit length.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)  # weights that stay random are the same every time
        network = _build(settings).to(device).eval()
    augment = Augment(size=settings.size or None).resolved(network.input_settings)
    kept = [(one.outputs[0].cpu(), one.batch.index) for one in infer(network.features, _readable(batches(augment)))]
    if not kept:
        raise CovpoolError("none of the images can be read")
    features, index = (torch.cat(tensors) for tensors in zip(*kept, strict=True))
    if pool_info(settings.pool).order != "1" and features[0].numel() == network.pool.in_features:
        raise CovpoolError(
            f"{settings.pool} needs feature maps of several positions; {settings.backbone} gives one for images of "
            f"{augment.size} pixels: use a larger size"
        )
    maps = Maps(features, torch.zeros(len(features), device=device))
    start_from_data(network.pool, maps)
    return StartedEmbedder(Embedder(network, augment, unit_length), maps, index)


def spread(count: int, most: int = START_IMAGES) -> list[int]:
    """Return the positions of at most `most` of `count` images, evenly spread.

    >>> spread(10, 4), spread(3, 4)
    ([0, 2, 5, 7], [0, 1, 2])
    """
    return [i * count // most for i in range(most)] if count > most else list(range(count))


def _readable(batches: Iterable[Batch]) -> Iterable[Batch]:
    return select_rows(batches, lambda batch: ~batch.broken)


def _build(settings: FrozenBackbone) -> Network:
    """Build the network. A checkpoint needs a classifier, so it has one for a single class."""
    features = make_features(
        settings.backbone,
        keep_last_stride=True,
        pretrained=settings.pretrained and not settings.weights,
        weights=settings.weights or None,
    )
    assert isinstance(features, Backbone)
    (channels,) = features.channels
    options = {"layout": features.layout, **pca_options(settings.pool, channels, settings.width)}
    options |= settings.pool_options
    pool, classifier = PoolSpec(settings.pool, options, channels, features.layout, classes=1).make()
    architecture = AttachedArchitecture(
        backbone=settings.backbone,
        pool=settings.pool,
        num_classes=1,
        keep_last_stride=True,
        reduce_to=options.pop("reduce_to"),
        pool_options=options,
    )
    return Network(features, pool, classifier, architecture=architecture)
