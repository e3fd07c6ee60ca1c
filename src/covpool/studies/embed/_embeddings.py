"""Files of embeddings: vectors, paths and labels, and the model that made them."""

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from covpool._errors import CovpoolError, require
from covpool._settings import Options, Settings
from covpool.data import UNKNOWN
from covpool.io import replacing

SUFFIXES = (".npz", ".parquet")


class EmbeddingModel(Settings):
    """The model that made the vectors of a file."""

    IS_TABLE: ClassVar[bool] = False

    path: str
    """Checkpoint of the model: an absolute path, or a name in the folder of the vectors."""
    digest: str
    """SHA-256 of the checkpoint."""
    unit_length: bool
    """Whether the vectors have unit length."""
    settings: Options = Field(default_factory=dict)
    """Settings of a frozen backbone; empty for a trained network."""


@dataclass(frozen=True)
class Neighbour:
    """An image near another one.

    Attributes:
        path: The image file.
        class_name: Name of its class; empty if it has none.
        similarity: Cosine of the angle between the two vectors.
    """

    path: str
    class_name: str
    similarity: float


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The vectors of n images.

    Attributes:
        vectors: The vectors, (n, d).
        paths: Absolute paths of the images, (n,).
        labels: Index of each image's class in `class_names`, -1 for images without a class, (n,).
        class_names: Names of the classes.
        model: The model that made the vectors.
    """

    vectors: NDArray[np.float32]
    paths: NDArray[np.str_]
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    model: EmbeddingModel

    def __len__(self) -> int:
        return len(self.vectors)

    def save(self, path: Path) -> None:
        """Write the embeddings to an .npz or a .parquet file."""
        check_output(path)
        with replacing(path) as partial:
            (_write_npz if path.suffix == ".npz" else _write_parquet)(self, partial)

    def find(self, image: Path) -> int | None:
        """Return the row of an image file, or None if the file was not embedded."""
        rows = np.flatnonzero(self.paths == os.path.abspath(image))
        return int(rows[0]) if len(rows) else None

    def nearest(self, vector: NDArray[np.float32], top: int, *, skip: int | None = None) -> list[Neighbour]:
        """Return the images with the largest cosine similarity to a vector, most similar first.

        Args:
            vector: The vector, (d,).
            top: Number of images.
            skip: Row to leave out, such as that of the image itself.
        """
        cosines = self._cosines(vector[None])[0]
        order = [int(row) for row in np.argsort(-cosines, kind="stable") if row != skip]
        return [Neighbour(str(self.paths[i]), self._class_name(i), float(cosines[i])) for i in order[:top]]

    def nearest_has_class_of(self, images: "Embeddings") -> NDArray[np.bool_]:  # (m,)
        """Tell for each of m images whether the most similar image here has its class.

        An image that is here too is not compared with itself.

        Args:
            images: Embeddings of the images by the same model, with classes.
        """
        if images.model.digest != self.model.digest:
            raise CovpoolError("vectors of two models cannot be compared: embed both sets of images by one model")
        if UNKNOWN in images.labels:
            raise CovpoolError("every image must have a class: embed a folder with one folder per class")
        itself = images.paths[:, None] == self.paths  # (m, n)
        nearest = np.where(itself, -np.inf, self._cosines(images.vectors)).argmax(1)
        names = [(images._class_name(i), self._class_name(row)) for i, row in enumerate(nearest)]
        return np.array([one == other for one, other in names])

    def _cosines(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:  # (m, d) -> (m, n)
        """Cosines between other vectors and these."""
        if vectors.shape[1] != self.vectors.shape[1]:
            raise CovpoolError(
                f"the vectors have {self.vectors.shape[1]} numbers, and those to compare have {vectors.shape[1]}: the "
                "file is damaged; embed the images again"
            )
        lengths = np.outer(*(np.sqrt(np.einsum("nd,nd->n", one, one)) for one in (vectors, self.vectors)))
        return (vectors @ self.vectors.T) / np.maximum(lengths, np.finfo(np.float32).tiny)

    def _class_name(self, row: int) -> str:
        label = self.labels[row]
        return "" if label == UNKNOWN else self.class_names[label]


def check_output(path: Path) -> None:
    """Require the name of a file that embeddings can be written to, and the package that writes it."""
    if path.suffix not in SUFFIXES:
        raise CovpoolError(f"embeddings are written to {' or '.join(SUFFIXES)} files; got {str(path)!r}")
    if path.suffix == ".parquet":
        require("pyarrow.parquet", "parquet")


def read_embeddings(path: Path) -> Embeddings:
    """Read a file of embeddings."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}: make it with `covpool embed`")
    check_output(path)
    try:
        columns = _read_npz(path) if path.suffix == ".npz" else _read_parquet(path)
        about = json.loads(str(columns["about"]))
        names = tuple(map(str, columns["class_names"]))
        _check_columns(columns, len(names))
        return Embeddings(columns["vectors"], columns["paths"], columns["labels"], names, EmbeddingModel(**about))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CovpoolError(f"{str(path)!r} must be a file of `covpool embed`; it is another one, or damaged") from error


def _check_columns(columns: Mapping[str, Any], classes: int) -> None:
    """Require finite vectors, and one path and one class for each."""
    vectors, paths, labels = (columns[name] for name in ("vectors", "paths", "labels"))
    if [column.dtype.kind for column in (vectors, paths, labels)] != ["f", "U", "i"] or vectors.ndim != 2:
        raise ValueError("columns of other types")
    if not paths.shape == labels.shape == (len(vectors),) or not np.isfinite(vectors).all():
        raise ValueError("columns of other lengths, or NaN")
    if len(labels) and not UNKNOWN <= labels.min() <= labels.max() < classes:
        raise ValueError("a class without a name")


def _write_npz(found: Embeddings, path: Path) -> None:
    with path.open("wb") as file:
        np.savez(
            file,
            vectors=found.vectors,
            paths=found.paths,
            labels=found.labels,
            class_names=np.array(found.class_names, dtype=np.str_),
            about=np.array(found.model.model_dump_json()),
        )


def _read_npz(path: Path) -> Mapping[str, Any]:
    if not zipfile.is_zipfile(path):
        raise ValueError("not an archive")
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def _write_parquet(found: Embeddings, path: Path) -> None:
    """Write the columns path, label, class and vector."""
    arrow, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
    vectors = arrow.FixedSizeListArray.from_arrays(arrow.array(found.vectors.reshape(-1)), found.vectors.shape[1])
    classes = [found._class_name(i) or None for i in range(len(found))]
    columns = {"path": found.paths.tolist(), "label": found.labels, "class": classes, "vector": vectors}
    table = arrow.table(columns).replace_schema_metadata(
        {"about": found.model.model_dump_json(), "class_names": json.dumps(found.class_names)}
    )
    parquet.write_table(table, path)


def _read_parquet(path: Path) -> Mapping[str, Any]:
    table = require("pyarrow.parquet", "parquet").read_table(path)  # its errors are ValueErrors
    kept = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    vectors = table["vector"].combine_chunks().flatten().to_numpy()
    return {
        "vectors": vectors.reshape(len(table), -1),
        "paths": np.array(table["path"].to_pylist(), dtype=np.str_),
        "labels": table["label"].to_numpy(),
        "class_names": json.loads(kept["class_names"]),
        "about": kept["about"],
    }
