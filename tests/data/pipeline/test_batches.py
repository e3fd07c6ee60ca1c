"""Batches do not depend on workers, caches or the number of processes."""

import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

import trees
from covpool.data._images import BrokenImage, Images
from covpool.data._settings import Data, ResolvedAugment
from covpool.data.pipeline._batch import Batch
from covpool.data.pipeline._batches import EvalBatches, TrainBatches
from covpool.data.pipeline._order import Share
from covpool.data.sets._open import Splits, open_data

AUGMENT = ResolvedAugment(size=16, resize=(20,), color_jitter=0.2)
CACHES = ("none", "ram", "gpu")


@pytest.fixture
def splits(tmp_path: Path) -> Splits:
    return open_data(Data(root=str(trees.make_folder(tmp_path, per_class=5))))


def settings(cache: str = "none", workers: int = 0, broken: str = "refuse") -> Data:
    return Data(cache=cache, workers=workers, broken=broken)  # type: ignore[arg-type]


def equal(one: Iterable[Batch], other: Iterable[Batch]) -> bool:
    pairs = list(zip(one, other, strict=True))
    fields = ("x", "y", "index", "broken")
    return bool(pairs) and all(torch.equal(getattr(a, f), getattr(b, f)) for a, b in pairs for f in fields)


def test_workers_make_no_difference_and_survive_epochs(splits: Splits) -> None:
    alone = TrainBatches(splits.train, AUGMENT, settings(), batch_size=4, seed=1)
    helped = TrainBatches(splits.train, AUGMENT, settings(workers=2), batch_size=4, seed=1)
    for epoch in (0, 1):
        assert equal(alone.epoch(epoch), helped.epoch(epoch))
    first = {worker.pid for worker in helped._source._loader._iterator._workers}  # type: ignore[attr-defined]
    next(helped.epoch(2))  # an abandoned epoch
    assert equal(alone.epoch(0), helped.epoch(0))
    assert {worker.pid for worker in helped._source._loader._iterator._workers} == first  # type: ignore[attr-defined]
    test = EvalBatches(splits.test, AUGMENT, settings(workers=2), batch_size=4)
    assert equal(test, EvalBatches(splits.test, AUGMENT, settings(), batch_size=4))


@pytest.mark.parametrize("cache", CACHES)
def test_a_resumed_epoch_yields_the_remaining_batches(splits: Splits, cache: str) -> None:
    whole = TrainBatches(splits.train, AUGMENT, settings(cache), batch_size=4, seed=1)
    assert whole.steps_per_epoch == 3
    expected = list(whole.epoch(5))
    fresh = TrainBatches(splits.train, AUGMENT, settings(cache), batch_size=4, seed=1)
    assert equal(fresh.epoch(5, start=1), expected[1:])
    assert list(fresh.epoch(5, start=3)) == []
    assert not torch.equal(next(fresh.epoch(6)).x, expected[0].x)


@pytest.mark.parametrize("cache", CACHES)
def test_two_processes_together_see_what_one_sees(splits: Splits, cache: str) -> None:
    one = TrainBatches(splits.train, AUGMENT, settings(cache), batch_size=6, seed=2)
    two = [
        TrainBatches(splits.train, AUGMENT, settings(cache), batch_size=3, share=Share(2, rank), seed=2)
        for rank in (0, 1)
    ]
    assert one.steps_per_epoch == two[0].steps_per_epoch == 2
    for whole, *halves in zip(one.epoch(0), two[0].epoch(0), two[1].epoch(0), strict=True):
        for name in ("x", "y", "index"):
            both = torch.stack([getattr(half, name) for half in halves], 1).flatten(0, 1)
            if cache == "gpu" and name == "x":  # a matrix product may sum in another order
                torch.testing.assert_close(both, getattr(whole, name), rtol=0, atol=1e-4)
            else:
                assert torch.equal(both, getattr(whole, name))


@pytest.mark.parametrize(
    "augment",
    [
        AUGMENT,
        ResolvedAugment(size=16, crop="random", resize=(20,)),
        ResolvedAugment(size=16, scales=(18, 30), crop="random"),
    ],
)
def test_a_cache_in_memory_gives_the_same_batches(splits: Splits, augment: ResolvedAugment) -> None:
    files = TrainBatches(splits.train, augment, settings(), batch_size=4)
    memory = TrainBatches(splits.train, augment, settings("ram"), batch_size=4)
    assert equal(files.epoch(1), memory.epoch(1))
    assert equal(
        *(EvalBatches(splits.test, augment, settings(cache), batch_size=4, crops=10) for cache in ("none", "ram"))
    )


def test_workers_share_the_cache(splits: Splits) -> None:
    alone = TrainBatches(splits.train, AUGMENT, settings("ram"), batch_size=4)
    helped = TrainBatches(splits.train, AUGMENT, settings("ram", workers=2), batch_size=4)
    assert equal(alone.epoch(0), helped.epoch(0))


@pytest.mark.parametrize("crops", [1, 10])
def test_evaluation_on_the_device_sees_the_same_inputs(splits: Splits, crops: Any) -> None:
    augment = ResolvedAugment(size=16, resize=(20,), mean=(0, 0, 0), std=(1, 1, 1))
    files = EvalBatches(splits.test, augment, settings(), batch_size=4, crops=crops)
    device = EvalBatches(splits.test, augment, settings("gpu"), batch_size=4, crops=crops)
    for one, other in zip(files, device, strict=True):
        assert torch.equal(one.y, other.y) and torch.equal(one.index, other.index)
        assert float((one.x - other.x).abs().max()) < 1e-6  # far below a gray level, 1 / 255


@pytest.mark.parametrize("cache", CACHES)
def test_evaluation_counts_every_image_once_over_all_processes(splits: Splits, cache: str) -> None:
    whole = {
        int(i): x
        for b in EvalBatches(splits.test, AUGMENT, settings(), batch_size=15)
        for i, x in zip(b.index, b.x, strict=True)
    }
    seen = []
    for rank in (0, 1):
        share = EvalBatches(splits.test, AUGMENT, settings(cache), batch_size=3, share=Share(2, rank))
        assert len(share) == 3
        for batch in share:
            real = batch.index >= 0
            assert batch.y[~real].eq(-1).all() and not batch.broken.any()
            assert batch.y[real].tolist() == [splits.test.targets[i] for i in batch.index[real]]
            for i, x in zip(batch.index[real].tolist(), batch.x[real], strict=True):
                torch.testing.assert_close(x, whole[i], rtol=0, atol=1e-4)
                seen.append(i)
    assert sorted(seen) == list(range(15))


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("cache", CACHES)
def test_a_broken_image_is_rejected_by_name(splits: Splits, cache: str, workers: int) -> None:
    trees.break_image(splits.train.paths[7])
    trees.break_image(splits.test.paths[2])
    with pytest.raises(BrokenImage, match=splits.train.paths[7].name):
        for _ in TrainBatches(splits.train, AUGMENT, settings(cache, workers), batch_size=15).epoch(0):
            pass
    with pytest.raises(BrokenImage, match=splits.test.paths[2].name):
        for _ in EvalBatches(splits.test, AUGMENT, settings(cache, workers), batch_size=15):
            pass


@pytest.mark.parametrize("cache", CACHES)
def test_a_broken_image_is_skipped_and_marked(splits: Splits, cache: str) -> None:
    plain = ResolvedAugment(size=16, resize=(20,), crop="center", flip=False)
    trees.break_image(splits.train.paths[7])
    trees.break_image(splits.test.paths[2])
    (batch,) = TrainBatches(splits.train, plain, settings(cache, broken="skip"), batch_size=15).epoch(0)
    at = {int(index): place for place, index in enumerate(batch.index)}
    assert batch.index[batch.broken].tolist() == [7]
    assert torch.equal(batch.x[at[7]], batch.x[at[8]]) and batch.y[at[7]] == batch.y[at[8]]
    (batch,) = EvalBatches(splits.test, plain, settings(cache, broken="skip"), batch_size=15)
    assert batch.index[batch.broken].tolist() == [2] and batch.index.tolist() == list(range(15))
    assert batch.y.tolist() == [t if i != 2 else -1 for i, t in enumerate(splits.test.targets)]
    assert batch.x.isfinite().all()


def test_augmentation_on_the_device_has_the_distribution_of_the_cpu(splits: Splits) -> None:
    """The random numbers differ, but the means over many epochs agree."""
    augment = ResolvedAugment(size=12, resize=(24,), scale=(0.3, 1.0), mean=(0, 0, 0), std=(1, 1, 1))
    images = Images(splits.train.paths[:4], [0] * 4, ("one",))
    means = []
    for cache in ("ram", "gpu"):
        batches = TrainBatches(images, augment, settings(cache), batch_size=4)
        seen = torch.zeros(4, 3, 12, 12)
        for epoch in range(40):
            (batch,) = batches.epoch(epoch)
            seen[batch.index] += batch.x / 40
        means.append(seen)
    assert float((means[0] - means[1]).abs().mean()) < 3 / 255


def test_the_global_generator_is_unchanged(splits: Splits) -> None:
    state = torch.get_rng_state()
    for cache in CACHES:
        for _ in TrainBatches(splits.train, AUGMENT, settings(cache), batch_size=5).epoch(0):
            pass
    list(TrainBatches(splits.train, AUGMENT, settings(workers=1), batch_size=5).epoch(0))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("cache", ["ram", "gpu"])
def test_batches_of_the_same_files_share_a_cache(splits: Splits, cache: str) -> None:
    reported: list[int] = []

    def batches(images: Images, augment: ResolvedAugment = AUGMENT, batch_size: int = 4) -> TrainBatches:
        def report(what: str, done: int, total: int) -> None:
            reported.append(done)

        return TrainBatches(images, augment, settings(cache), batch_size=batch_size, on_progress=report)

    first, second = batches(splits.train), batches(splits.train, batch_size=5)
    assert reported == [15]
    torch.testing.assert_close(next(first.epoch(0)).x, next(second.epoch(0)).x[:4], rtol=0, atol=1e-4)
    batches(splits.train, ResolvedAugment(size=16, resize=(24,), crop="random"))
    batches(splits.test)
    assert reported == [15, 15, 15]


def test_waiting_time_is_measured(splits: Splits) -> None:
    batches = TrainBatches(splits.train, AUGMENT, settings(), batch_size=5)
    list(batches.epoch(0))
    assert 0 < batches.waited < 60


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 16}, r"must not be larger.*got 16 images \(over 1 processes\) of 15"),
        ({"batch_size": 8, "share": Share(2, 0)}, "got 16 images"),
        ({"batch_size": 0}, "`batch_size` must be a positive integer"),
    ],
)
def test_a_batch_larger_than_the_set_is_rejected(splits: Splits, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainBatches(splits.train, AUGMENT, settings(), **options)


def test_unsupported_settings_on_the_device_are_rejected_with_a_remedy(splits: Splits) -> None:
    with pytest.raises(ValueError, match=r'does not support augment.randaugment.*cache = "ram"'):
        TrainBatches(splits.train, ResolvedAugment(size=16, randaugment=3), settings("gpu"), batch_size=4)
    with pytest.raises(ValueError, match="ten crops of 48 pixels"):
        EvalBatches(splits.test, ResolvedAugment(size=48, resize=(20,)), settings("gpu"), batch_size=4, crops=10)


def test_filling_a_cache_reports_progress(splits: Splits) -> None:
    reported: list[tuple[str, int, int]] = []
    TrainBatches(splits.train, AUGMENT, settings("gpu"), batch_size=4, on_progress=lambda *now: reported.append(now))
    assert reported[-1] == ("decoding images", 15, 15)


def test_samples_can_be_pickled_for_spawned_workers(splits: Splits) -> None:
    for cache in ("none", "ram"):
        batches = TrainBatches(splits.train, AUGMENT, settings(cache), batch_size=4)
        samples = batches._source._loader.dataset  # type: ignore[attr-defined]
        assert torch.equal(pickle.loads(pickle.dumps(samples))[0, 3].x, samples[0, 3].x)
