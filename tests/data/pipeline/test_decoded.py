"""Images decoded once and kept in memory."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

import trees
from covpool._errors import OutOfResourcesError
from covpool.data._images import BrokenImage, Images
from covpool.data._settings import Data, ResolvedAugment
from covpool.data.pipeline import EvalBatches, decode_ahead
from covpool.data.pipeline import _decoded as memory
from covpool.data.pipeline._transforms import resize
from covpool.data.sets._open import open_data


@pytest.fixture
def images(tmp_path: Path) -> Images:
    return open_data(Data(root=str(trees.make_folder(tmp_path, per_class=3)))).train


@pytest.mark.parametrize("block", [1, 4, 9, 100])
def test_cached_images_equal_the_files(images: Images, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "BLOCK", block)
    prepare = resize(ResolvedAugment(resize=(20,)))
    reported: list[tuple[int, int]] = []
    decoded = memory.DecodedImages(
        memory.Decoding(images, prepare), lambda _, done, total: reported.append((done, total))
    )
    for kept in (decoded, pickle.loads(pickle.dumps(decoded))):
        for i in range(9):
            assert np.array_equal(np.asarray(kept.load(i)), np.asarray(prepare(images.load(i))))
    assert len(decoded) == 9 and decoded.targets == images.targets
    assert reported[-1] == (9, 9) and [done for done, _ in reported] == sorted({done for done, _ in reported})


@pytest.mark.parametrize("block", [1, 4])
def test_a_broken_image_is_recorded_with_its_reason(
    images: Images, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "BLOCK", block)
    trees.break_image(images.paths[4])
    decoded = memory.DecodedImages(memory.Decoding(images, lambda image: image))
    assert list(decoded.reasons) == [4] and decoded.sizes[4].tolist() == [0, 0]
    with pytest.raises(BrokenImage, match=images.paths[4].name):
        decoded.load(4)
    assert np.array_equal(np.asarray(decoded.load(5)), np.asarray(images.load(5)))


def test_progress_is_reported_often_enough_to_interrupt(images: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "AT_ONCE", 2)
    reported: list[int] = []
    memory.DecodedImages(memory.Decoding(images, lambda image: image), lambda _, done, total: reported.append(done))
    assert reported == [2, 4, 6, 8, 9]


def test_an_error_while_decoding_is_raised_at_once(images: Images) -> None:
    def prepare(image: object) -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memory.DecodedImages(memory.Decoding(images, prepare))  # type: ignore[arg-type]


def test_processes_decode_many_images(images: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their images are those of threads, and so are their errors."""
    trees.break_image(images.paths[4])
    prepare = resize(ResolvedAugment(resize=(20,)))
    threads = memory.DecodedImages(memory.Decoding(images, prepare))
    monkeypatch.setattr(memory, "MANY", 1)
    monkeypatch.setattr(memory, "AT_ONCE", 4)
    monkeypatch.setattr(memory, "usable_cores", lambda: 2)
    processes = memory.DecodedImages(memory.Decoding(images, prepare))
    assert processes.reasons == threads.reasons and processes.sizes.equal(threads.sizes)
    assert processes.blocks[0].equal(threads.blocks[0])


def test_a_set_decoded_ahead_is_not_decoded_again(images: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    augment, data = ResolvedAugment(size=16, resize=(20,)), Data(cache="ram", workers=0)
    ahead = decode_ahead(images, augment, data)
    assert ahead is not None and decode_ahead(images, augment, data) is ahead
    monkeypatch.setattr(memory.Decoding, "__init__", lambda *args: pytest.fail("decoded again"))
    (batch,) = EvalBatches(images, augment, data, batch_size=9)
    assert batch.x.shape == (9, 3, 16, 16)
    assert decode_ahead(images, augment, data.changed(cache="none")) is None


def test_a_killed_process_is_one_line(images: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MANY", 1)
    monkeypatch.setattr(memory, "usable_cores", lambda: 2)
    with pytest.raises(OutOfResourcesError, match="was killed, probably because memory ran out"):
        memory.DecodedImages(memory.Decoding(images, lambda image: os._exit(1)))
