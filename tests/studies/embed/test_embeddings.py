"""Files of embeddings, and nearest neighbours."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from covpool import CovpoolError
from covpool.studies.embed import Embeddings, read_embeddings
from covpool.studies.embed._embeddings import EmbeddingModel

MODEL = EmbeddingModel(path="vectors.model.safetensors", digest="abc", unit_length=True, settings={"pool": "isqrt"})


def embeddings() -> Embeddings:
    vectors = np.array([[1, 0], [0, 2], [3, 3.1], [0, 0]], dtype=np.float32)
    paths = np.array(["/a/1.png", "/a/ä 2.png", "/b/3.png", "/4.png"])
    return Embeddings(vectors, paths, np.array([0, 0, 1, -1]), ("a", "b"), MODEL)


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_files_give_back_what_was_written(suffix: str, tmp_path: Path) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    path, made = tmp_path / f"vectors{suffix}", embeddings()
    made.save(path)
    found = read_embeddings(path)
    for name in ("vectors", "paths", "labels"):
        assert np.array_equal(getattr(found, name), getattr(made, name))
        assert getattr(found, name).dtype.kind == getattr(made, name).dtype.kind
    assert found.vectors.dtype == np.float32
    assert (found.class_names, found.model) == (made.class_names, made.model)


def test_nearest_by_cosine() -> None:
    made = embeddings()
    found = made.nearest(np.array([10, 1], dtype=np.float32), 3)
    assert [one.path for one in found] == ["/a/1.png", "/b/3.png", "/a/ä 2.png"]
    assert [one.class_name for one in found] == ["a", "b", "a"]
    assert found[0].similarity == pytest.approx(10 / np.hypot(10, 1))
    assert [one.path for one in made.nearest(made.vectors[0], 9, skip=0)] == ["/b/3.png", "/a/ä 2.png", "/4.png"]


def test_the_nearest_image_is_compared_by_the_name_of_its_class() -> None:
    known = embeddings()
    vectors = np.array([[2, 0], [0, 1], [1, 1]], dtype=np.float32)
    images = Embeddings(vectors, np.array(["/5.png", "/6.png", "/7.png"]), np.array([0, 1, 1]), ("a", "b"), MODEL)
    assert known.nearest_has_class_of(images).tolist() == [True, False, True]
    assert known.nearest_has_class_of(replace(images, class_names=("b", "a"))).tolist() == [False, True, False]
    itself = replace(images, paths=np.array(["/a/1.png", "/6.png", "/7.png"]))
    assert known.nearest_has_class_of(itself).tolist() == [False, False, True]
    with pytest.raises(CovpoolError, match="vectors of two models"):
        known.nearest_has_class_of(replace(images, model=MODEL.changed(digest="def")))
    with pytest.raises(CovpoolError, match="every image must have a class"):
        known.nearest_has_class_of(known)
    with pytest.raises(CovpoolError, match="the vectors have 2 numbers, and those to compare have 3"):
        known.nearest_has_class_of(replace(images, vectors=np.ones((3, 3), dtype=np.float32)))


def test_images_are_found_by_their_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert embeddings().find(Path("b/3.png")) == 2 and embeddings().find(Path("b/4.png")) is None


def test_parquet_without_its_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(CovpoolError, match=r"pip install 'covpool\[parquet\]'"):
        embeddings().save(tmp_path / "vectors.parquet")


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CovpoolError, match=r"written to \.npz or \.parquet files; got"):
        embeddings().save(tmp_path / "vectors.csv")
    with pytest.raises(FileNotFoundError, match="make it with `covpool embed`"):
        read_embeddings(tmp_path / "none.npz")
    np.savez(tmp_path / "other.npz", x=np.ones(3))
    np.save(tmp_path / "array.npy", np.ones(3))
    (tmp_path / "array.npy").rename(tmp_path / "array.npz")
    for name in ("other", "array"):
        with pytest.raises(CovpoolError, match="must be a file of `covpool embed`"):
            read_embeddings(tmp_path / f"{name}.npz")


@pytest.mark.parametrize(
    ("column", "change"),
    [
        *(("labels", lambda x: x + 2), ("labels", lambda x: x - 1), ("labels", lambda x: x + 0.5)),
        *(("vectors", lambda x: x * np.nan), ("vectors", lambda x: x[:2]), ("vectors", lambda x: x[0])),
        *(("vectors", lambda x: x.astype(str)), ("vectors", lambda x: x.astype(int)), ("paths", lambda x: x[:1])),
        *(("about", lambda _: np.array("[" * 50_000)), ("about", lambda _: np.array("3"))),
    ],
)
def test_damaged_columns_are_refused(column: str, change: Callable[[Any], Any], tmp_path: Path) -> None:
    path = tmp_path / "vectors.npz"
    embeddings().save(path)
    with np.load(path) as file:
        columns = dict(file)
    np.savez(path, **{**columns, column: change(columns[column])})
    with pytest.raises(CovpoolError, match="must be a file of `covpool embed`; it is another one, or damaged"):
        read_embeddings(path)


def test_a_vector_of_another_length_is_refused() -> None:
    with pytest.raises(CovpoolError, match="the vectors have 2 numbers, and those to compare have 3"):
        embeddings().nearest(np.ones(3, dtype=np.float32), 1)
