"""Covariance features of images as a transformer of scikit-learn."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

import covpool
from covpool._errors import CovpoolError, WrongTypeError, check_positive_int
from covpool.data import UNKNOWN, BrokenImage, Images, ResolvedAugment, to_rgb
from covpool.data.pipeline import Batch, eval_transform, preprocessing
from covpool.studies.embed import START_IMAGES, Embedder, FrozenBackbone, StartedEmbedder, spread, start_embedder

Item = str | Path | Image.Image | NDArray[np.uint8]
Features = NDArray[np.float32]

__all__ = ["CovarianceFeatures"]


class CovarianceFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Turn images into vectors: a frozen backbone, a PCA of its features, and a pool.

    `fit` starts the PCA, and the words or bases of pools that have them, from at most 2,000 of the images. The backbone
    is not trained. A fitted transformer is pickled as a checkpoint.

    Args:
        backbone: Name of the backbone: "resnet50" of timm, or "torchvision/resnet50".
        pool: Name of the pool, one of `covpool.list_pools()`.
        width: Channels after the PCA; mfafv gets at most 128. avg, gem, max and kernel, and backbones with fewer
            channels, have no PCA.
        size: Side of the input in pixels; None is the backbone's own.
        weights: File with weights of the backbone.
        pretrained: Download the weights that timm or torchvision offer if `weights` is not given.
        pool_options: Options of the pool, such as {"iterations": 3}.
        batch_size: Images per batch.
        device: Device that runs the network; "auto" is the GPU if there is one.
        normalize: Scale the vectors to unit length.

    Attributes:
        network_: The network, whose classifier is not used.

    Shape: n images (paths, PIL images, or uint8 arrays (h, w) or (h, w, 3)) -> (n, d).

    >>> images = np.random.default_rng(0).integers(0, 256, (6, 40, 40, 3), dtype=np.uint8)
    >>> features = CovarianceFeatures("torchvision/resnet18", pretrained=False, width=8, size=64)
    >>> features.fit_transform(images).shape
    (6, 36)
    """

    def __init__(
        self,
        backbone: str = "torchvision/mobilenet_v2",
        pool: str = "isqrt",
        *,
        width: int = 256,
        size: int | None = None,
        weights: str | Path | None = None,
        pretrained: bool = True,
        pool_options: dict[str, Any] | None = None,
        batch_size: int = 32,
        device: str = "auto",
        normalize: bool = True,
    ) -> None:
        self.backbone = backbone
        self.pool = pool
        self.width = width
        self.size = size
        self.weights = weights
        self.pretrained = pretrained
        self.pool_options = pool_options
        self.batch_size = batch_size
        self.device = device
        self.normalize = normalize

    def fit(self, X: Sequence[Item], y: object = None) -> "CovarianceFeatures":  # noqa: N803 - scikit-learn's name
        """Start the reduction and the pool from images. Targets are not used."""
        self._start(X)
        return self

    def fit_transform(self, X: Sequence[Item], y: object = None) -> Features:  # noqa: N803
        """Do what `fit` and `transform` do, and run the backbone once where `fit` uses all images."""
        started = self._start(X)
        if len(X) > START_IMAGES:
            return self._embed(X)
        return started.vectors().values.numpy()

    def transform(self, X: Sequence[Item]) -> Features:  # noqa: N803 - (n, d)
        """Turn images into vectors."""
        check_is_fitted(self)
        return self._embed(X)

    def _start(self, items: Sequence[Item]) -> StartedEmbedder:
        settings = FrozenBackbone(
            backbone=self.backbone,
            pool=self.pool,
            pool_options=self.pool_options or {},
            width=self.width,
            size=self.size or 0,
            weights=str(self.weights or ""),
            pretrained=self.pretrained,
        )
        _check_items(items)
        chosen = [items[i] for i in spread(len(items))]
        started = start_embedder(
            settings,
            lambda augment: self._batches(chosen, augment),
            device=self._device(),
            unit_length=self.normalize,
        )
        self.network_, self._augment = started.embedder.network, started.embedder.augment
        self._n_features_out = started.length
        return started

    def _embed(self, items: Sequence[Item]) -> Features:
        _check_items(items)
        embedder = Embedder(self.network_.to(self._device()), self._augment, self.normalize)
        return embedder.embed(self._batches(items, self._augment), len(items)).values.numpy()

    def _batches(self, items: Sequence[Item], augment: ResolvedAugment) -> Iterator[Batch]:
        check_positive_int("batch_size", self.batch_size)
        transform = eval_transform(augment)
        for start in range(0, len(items), self.batch_size):
            index = torch.arange(start, min(start + self.batch_size, len(items)))
            x = torch.stack([transform(_load(items[i])) for i in index.tolist()]).to(self._device())
            unknown = torch.full_like(index, UNKNOWN, device=x.device)
            yield Batch(x, unknown, index, torch.zeros_like(index, dtype=torch.bool))

    def _device(self) -> str:
        if self.device == "auto":
            return "cuda" if torch.cuda.is_available() else "cpu"
        return self.device

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "network_" in state:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "network.safetensors")
                covpool.save(state.pop("network_"), path, preprocessing=preprocessing(self._augment))
                state["checkpoint"] = path.read_bytes()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        checkpoint = state.pop("checkpoint", None)
        super().__setstate__(state)
        if checkpoint is not None:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "network.safetensors")
                path.write_bytes(checkpoint)
                self.network_ = covpool.load(path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string = False, True
        tags.transformer_tags.preserves_dtype = []
        tags.no_validation = True
        return tags


def _check_items(items: Sequence[Item]) -> None:
    if isinstance(items, (str, Path, Image.Image)):
        raise WrongTypeError(f"`X` must be a list of images; got a single {type(items).__name__}: put it in a list")
    if not len(items):
        raise CovpoolError("`X` must have at least one image; got none")


def _load(item: Item) -> Image.Image:
    """Return an image in RGB."""
    if isinstance(item, (str, Path)):
        try:
            return Images([Path(item)], [UNKNOWN], ()).load(0)
        except BrokenImage as broken:
            raise CovpoolError(f"{item} cannot be read ({broken.reason}): repair it, or leave it out") from broken
    if isinstance(item, Image.Image):
        return to_rgb(item)
    if isinstance(item, np.ndarray) and item.dtype == np.uint8 and (item.ndim == 2 or item.shape[2:] in ((3,), (4,))):
        return to_rgb(Image.fromarray(item))
    shape = f" of shape {item.shape} and type {item.dtype}" if isinstance(item, np.ndarray) else ""
    raise WrongTypeError(
        f"`X` must hold paths, PIL images or uint8 arrays (h, w) or (h, w, 3); got {type(item).__name__}{shape}"
    )
