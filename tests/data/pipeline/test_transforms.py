"""Transforms, compared with direct computations in PIL and numpy."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from covpool.data._images import BrokenImage
from covpool.data._settings import ResolvedAugment
from covpool.data.pipeline import _transforms as transforms
from covpool.data.pipeline._samples import drawing
from covpool.io import Preprocessing

MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def make_image(width: int, height: int, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def expected(image: Image.Image) -> np.ndarray[Any, Any]:
    return ((np.asarray(image) / 255.0 - MEAN) / STD).transpose(2, 0, 1)


@pytest.mark.parametrize(
    ("resize", "width", "height", "to", "box"),
    [
        ((20,), 60, 40, (30, 20), (7, 2, 23, 18)),  # CUB: shorter side, central crop
        ((20, 20), 60, 40, (20, 20), (2, 2, 18, 18)),  # Aircraft: aspect ratio not kept
        ((), 24, 18, (24, 18), (4, 1, 20, 17)),  # no resize
        ((16, 16), 60, 40, (16, 16), (0, 0, 16, 16)),  # Cars: nothing to crop
    ],
)
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_a_test_image_is_resized_and_center_cropped(
    resize: tuple[int, ...], width: int, height: int, to: tuple[int, int], box: tuple[int, ...], interpolation: Any
) -> None:
    augment = ResolvedAugment(size=16, resize=resize, interpolation=interpolation)
    image = make_image(width, height)
    resized = image.resize(to, Image.Resampling[interpolation.upper()])
    x = transforms.eval_transform(augment)(image)
    assert x.dtype == torch.float32
    np.testing.assert_allclose(x.numpy(), expected(resized.crop(box)), atol=1e-6)
    kept = Preprocessing.model_validate_json(transforms.preprocessing(augment).model_dump_json())
    assert torch.equal(transforms.eval_transform(transforms.augment_of(kept))(image), x)
    assert torch.equal(transforms.eval_transform(augment, resized=True)(resized), x)
    plain = ResolvedAugment(size=16, resize=resize, interpolation=interpolation, crop="center", flip=False)
    assert torch.equal(transforms.train_transform(plain)(image), x)


def test_ten_crops_are_corners_and_center_plain_and_flipped() -> None:
    image = make_image(24, 20)
    x = transforms.eval_transform(ResolvedAugment(size=16, resize=()), crops=10)(image)
    flipped = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    boxes = [(0, 0), (8, 0), (0, 4), (8, 4), (4, 2)]
    for i, (source, (left, top)) in enumerate((s, box) for s in (image, flipped) for box in boxes):
        np.testing.assert_allclose(x[i].numpy(), expected(source.crop((left, top, left + 16, top + 16))), atol=1e-6)
    with pytest.raises(ValueError, match="ten crops of 16 pixels need images at least as large; got 9 x 30"):
        transforms.eval_transform(ResolvedAugment(size=16, resize=()), crops=10)(make_image(30, 9))
    with pytest.raises(ValueError, match="got 12 x 20: set augment"):  # before any image is read
        transforms.eval_transform(ResolvedAugment(size=16, resize=(12, 20)), crops=10)


def test_a_random_crop_is_a_region_of_the_resized_image_plain_or_flipped() -> None:
    augment = ResolvedAugment(size=6, resize=(8, 9), crop="random", mean=(0, 0, 0), std=(1, 1, 1))
    image = make_image(30, 40)
    resized = np.asarray(image.resize((9, 8), Image.Resampling.BILINEAR)) / 255
    crops = {
        (top, left, flipped): resized[top : top + 6, left : left + 6][:, :: -1 if flipped else 1]
        for top in range(3)
        for left in range(4)
        for flipped in (False, True)
    }
    seen = set()
    for seed in range(200):
        with drawing(seed):
            x = transforms.train_transform(augment)(image).permute(1, 2, 0).numpy()
        seen |= {key for key, crop in crops.items() if np.allclose(x, crop, atol=1e-6)}
    assert seen == set(crops)


def test_scale_jitter_draws_the_shorter_side() -> None:
    flat = Image.fromarray(np.tile(np.linspace(0, 255, 64, dtype=np.uint8)[None, :, None], (64, 1, 3)))
    augment = ResolvedAugment(size=16, crop="random", scales=(16, 32), flip=False, mean=(0, 0, 0), std=(1, 1, 1))
    slopes = []
    for seed in range(100):
        with drawing(seed):
            x = transforms.train_transform(augment)(flat)
        slopes.append(float((x[0, 8, 12] - x[0, 8, 4]) / 8))  # gray levels per pixel: 1 / shorter side
    sides = [1 / slope for slope in slopes]
    assert min(sides) < 17.5 and max(sides) > 30.5 and np.mean(sides) == pytest.approx(24, abs=1.5)


def test_random_resized_crops_follow_scale_and_ratio() -> None:
    rows = np.tile(np.arange(200, dtype=np.uint8)[:, None, None], (1, 200, 1))
    columns = np.tile(np.arange(200, dtype=np.uint8)[None, :, None], (200, 1, 1))
    image = Image.fromarray(np.concatenate([rows, columns, rows], 2))
    augment = ResolvedAugment(size=20, scale=(0.25, 0.5), ratio=(0.5, 2.0), flip=False, mean=(0, 0, 0), std=(1, 1, 1))
    areas, ratios = [], []
    for seed in range(200):
        with drawing(seed):
            x = transforms.train_transform(augment)(image) * 255
        height = float(x[0, 15, 10] - x[0, 5, 10]) * 2
        width = float(x[1, 10, 15] - x[1, 10, 5]) * 2
        areas.append(height * width / 200**2)
        ratios.append(width / height)
    assert 0.24 < min(areas) < 0.27 and 0.48 < max(areas) < 0.52 and np.mean(areas) == pytest.approx(0.375, abs=0.02)
    assert (
        0.48 < min(ratios) < 0.56 and 1.8 < max(ratios) < 2.1 and np.mean(np.log(ratios)) == pytest.approx(0, abs=0.1)
    )


def test_pca_noise_shifts_colors_along_the_principal_axes() -> None:
    torch.manual_seed(0)
    shifts = torch.stack([transforms.add_pca_noise(torch.zeros(3, 2, 2), 0.1) for _ in range(4000)])
    assert torch.equal(shifts[..., 0, 0], shifts[..., 1, 1])  # one color for the whole image
    vectors, values = transforms.PCA_VECTORS.double(), transforms.PCA_VALUES.double()
    covariance = 0.01 * vectors @ torch.diag(values**2) @ vectors.T
    torch.testing.assert_close(shifts[..., 0, 0].double().T.cov(), covariance, rtol=0.1, atol=1e-6)
    torch.testing.assert_close(vectors.T @ vectors, torch.eye(3).double(), rtol=0, atol=1e-3)


def test_invalid_sizes_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"`augment.resize` must be .*; got \[1, 2, 3\]"):
        transforms.eval_transform(ResolvedAugment(resize=(1, 2, 3)))
    for scales in ((256,), (512, 256)):
        with pytest.raises(ValueError, match=r"`augment.scales` must be \[low, high\]"):
            transforms.train_transform(ResolvedAugment(crop="random", scales=scales))


def test_every_transform_can_be_pickled() -> None:
    full = ResolvedAugment(size=16, color_jitter=0.2, pca_noise=0.1, randaugment=3)
    for transform in (
        transforms.train_transform(full),
        transforms.eval_transform(full),
        transforms.eval_transform(full, crops=10),
        transforms.eval_transform(ResolvedAugment(size=16, resize=())),
    ):
        with drawing(0):
            x = transform(make_image(40, 30))
        with drawing(0):
            assert torch.equal(pickle.loads(pickle.dumps(transform))(make_image(40, 30)), x)


@pytest.mark.parametrize("size", [(1, 10_000), (65_000, 1)])
@pytest.mark.parametrize("augment", [{"resize": (256,)}, {"scales": (256, 512), "crop": "random"}])
def test_an_image_too_narrow_to_resize_is_broken(size: tuple[int, int], augment: dict[str, Any]) -> None:
    transform = transforms.train_transform(ResolvedAugment(**{"crop": "center", **augment}))
    with pytest.raises(BrokenImage, match=r"too narrow: 1 x (10000|65000) pixels would be resized to (256|512) x \d+"):
        transform(Image.new("RGB", size))


def test_narrow_images_within_the_bound_are_resized() -> None:
    augment = ResolvedAugment(size=8, resize=(8,))
    assert transforms.eval_transform(augment)(Image.new("RGB", (2, 400))).shape == (3, 8, 8)
    whole = ResolvedAugment(size=8, resize=(8, 8))
    assert transforms.eval_transform(whole)(Image.new("RGB", (1, 65_000))).shape == (3, 8, 8)
