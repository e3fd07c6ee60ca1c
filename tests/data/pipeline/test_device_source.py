"""Images kept on the device: replacements for broken ones, the room they need, and the batches made at once.

The contents of batches are tested in test_batches.py.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import trees
from covpool.data._images import Images
from covpool.data._settings import ResolvedAugment
from covpool.data.pipeline import _device_images as device_images
from covpool.data.pipeline import _device_source as device_source
from covpool.data.pipeline._batch import Batch
from covpool.data.pipeline._decoded import DecodedImages, Decoding
from covpool.data.pipeline._transforms import Crops

SIZES = [(40, 32), (33, 60), (20, 20), (70, 31), (64, 64), (25, 97), (50, 50), (31, 31)]  # width, height
AUGMENT = ResolvedAugment(size=16, color_jitter=0.2, pca_noise=0.1)
OPERATIONS = 120  # limit per group; on a GPU the host spends time on each, however small the images are


@pytest.fixture
def images(tmp_path: Path) -> device_images.DeviceImages:
    paths = [trees.write_image(tmp_path / f"{i}.png", size=size, hue=i) for i, size in enumerate(SIZES)]
    images = Images(paths, list(range(len(SIZES))), tuple(map(str, SIZES)))
    decoded = DecodedImages(Decoding(images, lambda image: image))
    return device_images.DeviceImages(decoded, torch.device("cpu"))


def rows(*lengths: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(len(SIZES), (length,), generator=generator) for length in lengths]


def pixels(order: list[Tensor], crops: int = 1) -> int:
    """Pixels of a group of these batches at input size 16, from the sizes of the files."""
    chosen = [SIZES[i] for row in order for i in row.tolist()]
    height, width = (32 * ((max(sides) + 31) // 32) for sides in zip(*chosen, strict=True))
    return len(chosen) * crops * max(height * width, 16 * 16)


def same(one: Batch, other: Batch) -> bool:
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in ("x", "y", "index", "broken"))


class Counted(TorchDispatchMode):
    """Counts operations."""

    count = 0

    def __torch_dispatch__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of regions in every group."""
    counts: list[int] = []

    def cut(pixels: Tensor, starts: Tensor, *args: Any, **options: Any) -> Tensor:
        counts.append(len(starts))
        return on_device_cut(pixels, starts, *args, **options)

    on_device_cut = device_source.cut
    monkeypatch.setattr(device_source, "cut", cut)
    return counts


@pytest.mark.parametrize("augment", [AUGMENT, ResolvedAugment(size=16, interpolation="bicubic", crop="random")])
def test_an_epoch_resumed_inside_a_group_is_bitwise_equal(
    images: device_images.DeviceImages, made: list[int], monkeypatch: pytest.MonkeyPatch, augment: ResolvedAugment
) -> None:
    monkeypatch.setattr(device_source, "GROUP_PIXELS", 100_000)
    source = device_source.DeviceSource(images, augment, seed=3)
    order = rows(*[3] * 11)
    whole = list(source.batches(order, 2))
    groups = made.copy()
    assert len(groups) > 2 and max(groups) > 3 and sum(groups) == 33
    for start in range(12):
        made.clear()
        rest = list(source.batches(order, 2, start))
        assert len(rest) == 11 - start and all(map(same, rest, whole[start:]))
        assert made == [
            n for i, n in enumerate(groups) if sum(groups[: i + 1]) > 3 * start
        ]  # whole groups, and none that is not needed


@pytest.mark.parametrize(("seed", "crops"), [(3, 1), (None, 1), (None, 10)])
def test_grouping_does_not_change_the_batches(
    images: device_images.DeviceImages, monkeypatch: pytest.MonkeyPatch, seed: int | None, crops: Crops
) -> None:
    augment = AUGMENT if seed is not None else ResolvedAugment(size=16)
    source = device_source.DeviceSource(images, augment, seed=seed, crops=crops)
    order = [*rows(4, 4, 4), torch.tensor([5, -1 if seed is None else 2])]  # a shorter last batch, as in evaluation
    together = list(source.batches(order, 1))
    monkeypatch.setattr(device_source, "GROUP_PIXELS", 0)
    alone = list(source.batches(order, 1))
    assert together[1].x.untyped_storage().data_ptr() == together[0].x.untyped_storage().data_ptr()
    assert alone[1].x.untyped_storage().data_ptr() != alone[0].x.untyped_storage().data_ptr()
    for row, one, other in zip(order, together, alone, strict=True):
        assert one.x.is_contiguous() and one.x.shape == (len(row), *([10] * (crops == 10)), 3, 16, 16)
        assert torch.equal(one.index, row) and torch.equal(one.y, other.y) and torch.equal(one.broken, other.broken)
        torch.testing.assert_close(one.x, other.x, rtol=0, atol=1e-4)  # a product may sum in another order


@pytest.mark.parametrize("crops", [1, 10])
@pytest.mark.parametrize("limit", [0, 30_000, 100_000, 10**9])
def test_groups_are_as_large_as_the_limit_allows(
    images: device_images.DeviceImages,
    made: list[int],
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
    crops: Crops,
) -> None:
    monkeypatch.setattr(device_source, "GROUP_PIXELS", limit)
    order = rows(3, 1, 4, 4, 2, 4, 4, 4, 1, 4)
    list(device_source.DeviceSource(images, ResolvedAugment(size=16), crops=crops).batches(order, 0))
    left = order
    for regions in made:
        count = next(n for n in range(1, len(left) + 1) if sum(map(len, left[:n])) * crops == regions)
        group, left = left[:count], left[count:]
        assert count == 1 or pixels(group, crops) <= limit
        assert not left or pixels([*group, left[0]], crops) > limit
    assert not left
    assert len(made) == {0: 10, 10**9: 1}.get(limit, len(made))


@pytest.mark.parametrize(("size", "together"), [((128, 128), 16), ((160, 160), 10), ((448, 448), 1), ((900, 448), 1)])
def test_small_images_are_grouped_and_large_ones_are_not(
    images: device_images.DeviceImages, size: tuple[int, int], together: int
) -> None:
    source = device_source.DeviceSource(images, ResolvedAugment(size=min(size)))
    groups = source._groups([64] * 33, torch.tensor([size] * 64 * 33))
    assert {group.stop - group.first for group in groups[:-1]} == {together} and groups[-1].stop == 33


@pytest.mark.parametrize("together", [1, 8])
def test_a_group_launches_few_operations(
    images: device_images.DeviceImages, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    order = [torch.tensor([0, 4, 6])] * 16
    monkeypatch.setattr(device_source, "GROUP_PIXELS", together * pixels(order[:1]))
    source = device_source.DeviceSource(images, ResolvedAugment(size=16), seed=0)
    counts = []
    for batches in (8, 16):
        with Counted() as counted:
            assert len(list(source.batches(order[:batches], 0))) == batches
        counts.append(counted.count)
    assert counts[1] - counts[0] <= 8 / together * OPERATIONS  # without the fixed cost of an epoch
