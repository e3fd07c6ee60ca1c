"""Regions drawn for many images at once, compared with torchvision's for single images."""

import pytest
import torch
from torchvision.transforms import v2

from covpool.data._settings import ResolvedAugment
from covpool.data.pipeline import _boxes as boxes

SIZES = torch.tensor([[40, 60], [60, 40], [16, 16], [20, 200], [200, 20], [33, 47]])


def many(size: list[int], count: int = 4000) -> torch.Tensor:
    return torch.tensor(size).repeat(count, 1)


def distribution(values: torch.Tensor) -> torch.Tensor:
    return torch.quantile(values.double(), torch.tensor([0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]).double())


@pytest.mark.parametrize("size", [[40, 60], [20, 200], [200, 20]])
def test_random_resized_crops_have_the_distribution_of_torchvision(size: list[int]) -> None:
    augment = ResolvedAugment(scale=(0.08, 1.0))
    ours = boxes.train_boxes(augment, many(size), boxes.draw(4000, 0, 0))
    torch.manual_seed(0)
    crop = v2.RandomResizedCrop(augment.size, augment.scale, augment.ratio)
    image = [torch.empty(3, *size, dtype=torch.uint8)]
    theirs = [crop.make_params(image) for _ in range(4000)]
    for name in ("top", "left", "height", "width"):
        expected = distribution(torch.tensor([params[name] for params in theirs]))
        torch.testing.assert_close(distribution(getattr(ours, name)), expected, rtol=0.06, atol=1.5, msg=name)
    assert (ours.top >= 0).all() and (ours.left >= 0).all() and not ours.whole.any()
    assert (ours.top + ours.height <= size[0]).all() and (ours.left + ours.width <= size[1]).all()
    assert float(ours.flipped.double().mean()) == pytest.approx(0.5, abs=0.03)


def test_a_crop_that_never_fits_becomes_the_central_one() -> None:
    augment = ResolvedAugment(scale=(1.0, 1.0), ratio=(0.9, 1.1), flip=False)
    found = boxes.train_boxes(augment, SIZES[3:5], boxes.draw(2, 0, 0))
    assert torch.stack(found[:4], 1).tolist() == [[0, 89, 20, 22], [89, 0, 22, 20]]
    assert not found.flipped.any()


@pytest.mark.parametrize("crop", ["random", "center"])
def test_crops_without_resizing_match_torchvision(crop: str) -> None:
    augment = ResolvedAugment(size=24, crop=crop)  # type: ignore[arg-type]
    for size in SIZES.tolist():
        found = boxes.train_boxes(augment, many(size, 2000), boxes.draw(2000, 1, 0))
        assert set(found.height.tolist()) == set(found.width.tolist()) == {24}
        for begin, side in ((found.top, size[0]), (found.left, size[1])):
            low, high = min(side - 24, 0), max(side - 24, 0)
            if crop == "random":  # every valid position occurs, and no other
                assert set(begin.tolist()) <= set(range(low, high + 1)) and {low, high} <= set(begin.tolist())
                assert float(begin.mean()) == pytest.approx((low + high) / 2, abs=0.05 * (high - low) + 0.01)
            else:
                assert begin.unique().tolist() == [round((side - 24) / 2) if side >= 24 else -((24 - side) // 2)]


def test_scale_jitter_takes_a_smaller_region_of_a_larger_image() -> None:
    augment = ResolvedAugment(size=16, crop="random", scales=(16, 32))
    found = boxes.train_boxes(augment, many([40, 60]), boxes.draw(4000, 0, 0))
    side = 16 * 40 / found.height  # length of the resized shorter side
    torch.testing.assert_close(side, side.round())
    assert sorted(set(side.round().int().tolist())) == list(range(16, 33))
    assert (found.top + found.height <= 40 + 1e-9).all() and (found.left + found.width <= 60 + 1e-9).all()


def test_ten_crops_are_in_the_order_of_torchvision() -> None:
    found = boxes.eval_boxes(4, torch.tensor([[6, 9]]), 10)
    image = torch.arange(54).view(1, 6, 9)
    expected = v2.functional.ten_crop(image, 4)
    for i in range(10):
        top, left = int(found.top[i]), int(found.left[i])
        cut = image[:, top : top + 4, left : left + 4]
        assert torch.equal(cut.flip(-1) if found.flipped[i] else cut, expected[i])


def test_random_numbers_depend_on_the_image_not_on_its_position_in_the_epoch() -> None:
    draws = boxes.draw(10, seed=1, epoch=2)
    chosen = torch.tensor([7, 3])
    assert all(torch.equal(a[1], b[3]) for a, b in zip(draws.of(chosen), boxes.draw(10, 1, 2), strict=True))
    assert not torch.equal(draws.place, boxes.draw(10, 1, 3).place)
    assert not torch.equal(draws.place, boxes.draw(10, 2, 2).place)
