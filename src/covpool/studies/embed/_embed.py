"""Embedding the images of a folder, and single images by the same model."""

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import covpool
from covpool._errors import CovpoolError
from covpool._progress import OnProgress, ignore
from covpool.data import UNKNOWN, BrokenImage, Data, Images, Paths, ResolvedAugment
from covpool.data.pipeline import Batch, EvalBatches, preprocessing
from covpool.engine import with_progress
from covpool.engine.evaluation import file_digest
from covpool.studies.embed._embedder import Embedder, FrozenBackbone, Vectors, spread, start_embedder
from covpool.studies.embed._embeddings import EmbeddingModel, Embeddings, check_output

MODEL_SUFFIX = ".model.safetensors"  # of the checkpoint beside the vectors of a frozen backbone


def embed(
    images: Images,
    model: Path | FrozenBackbone,
    out: Path,
    *,
    data: Data | None = None,
    batch_size: int = 32,
    device: str = "cpu",
    unit_length: bool = True,
    on_progress: OnProgress = ignore,
) -> Embeddings:
    """Embed images and write the vectors to a file. Images that cannot be read are left out, or refused.

    A frozen backbone is saved beside the vectors, so that other images can be embedded in the same way.

    Args:
        images: The images, such as those of `covpool.data.label_images`.
        model: A checkpoint, or a frozen backbone, whose pool starts from at most `START_IMAGES` of the images.
        out: File of the vectors, .npz or .parquet.
        data: How images are read: `workers` and `broken` are used.
        batch_size: Images per batch.
        device: Device that runs the network.
        unit_length: Whether vectors are scaled to unit length.
        on_progress: Called after every batch.
    """
    check_output(out)

    def batches(chosen: Images, augment: ResolvedAugment, what: str) -> Iterable[Batch]:
        made = EvalBatches(chosen, augment, data or Data(), batch_size=batch_size, device=device)
        return with_progress(made, what, on_progress)

    def embed_all(embedder: Embedder) -> Vectors:
        return embedder.embed(batches(images, embedder.augment, "vectors"), len(images))

    if isinstance(model, FrozenBackbone):
        first = images.select(spread(len(images)))
        started = start_embedder(
            model, lambda augment: batches(first, augment, "feature maps"), device=device, unit_length=unit_length
        )
        found = started.vectors() if len(first) == len(images) else embed_all(started.embedder)
        path = out.with_name(out.stem + MODEL_SUFFIX)
        name, told = path.name, model.model_dump(mode="json")
        covpool.save(started.embedder.network, path, preprocessing=preprocessing(started.embedder.augment))
    else:
        path, name, told = model, os.path.abspath(model), {}
        found = embed_all(Embedder.read(model, device, unit_length=unit_length))
    about = EmbeddingModel(path=name, digest=file_digest(path), unit_length=unit_length, settings=told)
    kept = found.index.tolist()
    embeddings = Embeddings(
        found.values.numpy(),
        np.array([os.path.abspath(images.paths[i]) for i in kept]),
        np.array([images.targets[i] for i in kept]),
        images.classes,
        about,
    )
    embeddings.save(out)
    return embeddings


def embed_image(
    image: Path, embeddings: Embeddings, vectors: Path, *, model: Path | None = None, device: str = "cpu"
) -> NDArray[np.float32]:  # (d,)
    """Embed an image by the model that made a file of embeddings.

    Args:
        image: The image file.
        embeddings: The contents of the file.
        vectors: The file; a model that was saved beside it is found there.
        model: The checkpoint of the model; by default the one that the file names.
        device: Device that runs the network.

    Raises:
        CovpoolError: The checkpoint is not the one that made the file.
    """
    path = check_model(embeddings, vectors, model)
    embedder = Embedder.read(path, device, unit_length=embeddings.model.unit_length)
    one = Images(Paths([image]), [UNKNOWN], ())
    batches = EvalBatches(one, embedder.augment, Data(workers=0), batch_size=1, device=device)
    try:
        found: NDArray[np.float32] = embedder.embed(batches, 1).values[0].numpy()
    except BrokenImage as broken:
        raise CovpoolError(f"{image} cannot be read ({broken.reason})") from broken
    return found


def check_model(embeddings: Embeddings, vectors: Path, model: Path | None = None) -> Path:
    """Return the checkpoint of the model that made a file of embeddings; refuse another one."""
    path = model or vectors.parent / embeddings.model.path
    if not path.is_file():
        raise CovpoolError(f"the model of {vectors} is not at {path}: name its checkpoint with --model")
    if file_digest(path) != embeddings.model.digest:
        raise CovpoolError(
            f"{vectors} was made by another model than {path}: name the checkpoint that made it, "
            f"{embeddings.model.path}, or embed the images again"
        )
    return path
