"""Random numbers of a sample depend on (seed, epoch, index) alone."""

import pickle
import random
from pathlib import Path
from typing import Literal

import pytest
import torch
from PIL import Image

import trees
from covpool.data._images import BrokenImage, Images
from covpool.data._settings import Data, ResolvedAugment
from covpool.data.pipeline import EvalBatches
from covpool.data.pipeline._samples import PADDING, Samples, drawing, seed_of
from covpool.data.pipeline._transforms import train_transform
from covpool.data.sets._open import open_data

AUGMENT = ResolvedAugment(size=16, color_jitter=0.4, randaugment=5)


@pytest.fixture
def images(tmp_path: Path) -> Images:
    return open_data(Data(root=str(trees.make_folder(tmp_path, per_class=2)))).train


def test_a_sample_depends_on_seed_epoch_and_index_alone(images: Images) -> None:
    samples = Samples(images, train_transform(AUGMENT), seed=1)
    forward = [samples[2, i].x for i in range(6)]
    torch.manual_seed(99)
    random.seed(99)
    backward = [samples[2, i].x for i in reversed(range(6))][::-1]
    assert all(map(torch.equal, forward, backward))
    assert not torch.equal(samples[3, 0].x, forward[0])
    assert not torch.equal(Samples(images, train_transform(AUGMENT), seed=2)[2, 0].x, forward[0])
    again = pickle.loads(pickle.dumps(samples))  # as a spawned worker receives it
    assert torch.equal(again[2, 4].x, forward[4]) and again[2, 4].y == images.targets[4] == 2


def test_global_generators_are_restored(images: Images) -> None:
    torch.manual_seed(5)
    random.seed(5)
    expected = torch.rand(3), random.random()
    torch.manual_seed(5)
    random.seed(5)
    Samples(images, train_transform(AUGMENT))[0, 0]
    assert torch.equal(torch.rand(3), expected[0]) and random.random() == expected[1]
    with pytest.raises(KeyError), drawing(1):
        raise KeyError
    torch.manual_seed(5)
    assert torch.equal(torch.rand(3), expected[0])


def test_in_training_the_next_readable_image_replaces_a_broken_one(images: Images) -> None:
    trees.break_image(images.paths[4])
    trees.break_image(images.paths[5])
    samples = Samples(images, train_transform(ResolvedAugment(size=16, flip=False, crop="center", resize=(20,))))
    for index in (4, 5):  # the first image follows the last
        assert torch.equal(samples[0, index].x, samples[0, 0].x)
        assert (samples[0, index].y, samples[0, index].index) == (0, index) and samples[0, index].reason
    assert samples[0, 0].reason == ""
    for path in images.paths:
        trees.break_image(path)
    with pytest.raises(ValueError, match="none of the 6 images can be read"):
        samples[0, 1]


def test_in_evaluation_a_blank_of_unknown_class_replaces_a_broken_image(images: Images) -> None:
    trees.break_image(images.paths[1])
    samples = Samples(images, train_transform(AUGMENT), blank=torch.zeros(3, 16, 16))
    broken, padding = samples[0, 1], samples[0, PADDING]
    assert (broken.y, broken.index, bool(broken.reason)) == (-1, 1, True)
    assert (padding.y, padding.index, padding.reason) == (-1, -1, "")
    assert torch.equal(broken.x, torch.zeros(3, 16, 16)) and torch.equal(padding.x, broken.x)
    assert samples[0, 0].y == 0


def test_seeds_do_not_collide() -> None:
    seeds = {seed_of(seed, epoch, index) for seed in range(3) for epoch in range(10) for index in range(300)}
    assert len(seeds) == 9000
    assert seed_of(1, 11) != seed_of(11, 1)


@pytest.mark.parametrize("cache", ["none", "ram"])
@pytest.mark.parametrize("broken", ["refuse", "skip"])
def test_an_image_too_narrow_to_resize_follows_the_policy(
    cache: Literal["none", "ram"], broken: Literal["refuse", "skip"], images: Images
) -> None:
    Image.new("RGB", (1, 20_000)).save(images.paths[1])
    data = Data(cache=cache, broken=broken, workers=0)

    def broken_images() -> list[bool]:
        batches = EvalBatches(images, ResolvedAugment(size=64, resize=(64,)), data, batch_size=6)
        return [is_broken for batch in batches for is_broken in batch.broken.tolist()]

    if broken == "skip":
        assert broken_images() == [False, True, False, False, False, False]
    else:
        with pytest.raises(BrokenImage, match=rf"{images.paths[1].name} cannot be read \(too narrow: 1 x 20000"):
            broken_images()
