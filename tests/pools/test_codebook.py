"""Pools with a codebook: descriptors, weights of positions, initialization from data."""

import math

import pytest
import torch

from cases import features
from covpool import create_pool
from covpool.pools._codebook import CodebookPool, effective_counts, sharpness

NAMES = ("netvlad", "netfv", "mfafv", "deepten")
every_pool = pytest.mark.parametrize("name", NAMES)


def small(name: str, in_features: int = 4, **options: object) -> CodebookPool:
    torch.manual_seed(0)
    if name == "mfafv":
        options["factors"] = 2
    pool = create_pool(name, in_features, clusters=3, **options)
    assert isinstance(pool, CodebookPool)
    return pool


@every_pool
def test_init_from_descriptors_needs_only_torch(name: str) -> None:
    pool, x = small(name, 8, reduce_to=4).double().eval(), features(5, 8, 20).unflatten(-1, (4, 5))
    before = {key: value.clone() for key, value in pool.state_dict().items()}
    seen = pool.descriptors(x)
    assert seen.shape == (100, 4) and not seen.requires_grad
    pool.init_from(seen)
    changed = [key for key, value in pool.state_dict().items() if not torch.equal(value, before[key])]
    assert {key.split(".")[0] for key in before} - {key.split(".")[0] for key in changed} == {"reduce"}
    first = pool(x)
    pool.init_from(seen, seed=0)
    torch.testing.assert_close(pool(x), first, rtol=0, atol=0)
    pool.init_from(seen, seed=3)
    assert not torch.equal(pool(x), first)
    assert all(p.requires_grad for p in pool.parameters())
    pool(x).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in pool.parameters())


@pytest.mark.parametrize("name", ["netfv", "mfafv", "deepten"])
@pytest.mark.parametrize("scale", [1e-3, 1e4])
def test_initialization_follows_scale_and_offset_of_the_data(name: str, scale: float) -> None:
    """The words move with the data, and the representation does not change."""
    x = features(4, 30, 4)
    here, there = small(name).double(), small(name).double()
    here.init_from(here.descriptors(x))
    moved = scale * (x + 3)
    there.init_from(there.descriptors(moved))
    torch.testing.assert_close(there(moved), here(x), rtol=1e-4, atol=1e-5)


@every_pool
def test_hard_descriptors_give_finite_words(name: str) -> None:
    relu = features(1, 60, 4, dtype=torch.float32)[0].relu()
    dead = relu.clone()
    dead[:, :2] = 0
    few = relu[:5].repeat(4, 1)
    for descriptors in (relu, dead, few, relu[:3], 1e-3 * relu, 1e6 * relu):
        pool = small(name)
        pool.init_from(descriptors)
        assert all(p.isfinite().all() for p in pool.parameters())
        x = descriptors.unsqueeze(0).clone().requires_grad_()
        pool(x).sum().backward()
        assert x.grad is not None and x.grad.isfinite().all()


@every_pool
def test_wrong_descriptors_are_refused(name: str) -> None:
    pool = small(name)
    for shape in ((10, 5), (2, 4), (2, 10, 4)):
        with pytest.raises(ValueError, match=r"shape \(m, 4\), m >= 3"):
            pool.init_from(torch.zeros(shape))
    with pytest.raises(ValueError, match="finite"):
        pool.init_from(torch.full((10, 4), torch.nan))
    with pytest.raises(ValueError, match=r"vary more|all the same"):
        pool.init_from(torch.ones(10, 4))
    with pytest.raises(ValueError, match="`clusters` must be a positive integer"):
        create_pool(name, 4, clusters=0)


def test_descriptors_are_the_kept_positions() -> None:
    x, mask = features(2, 6, 4), torch.tensor([[1, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 1]]).bool()
    found = small("deepten").descriptors(x, mask=mask)
    torch.testing.assert_close(found, torch.stack((x[0, 0], x[0, 3], x[1, 5])))


def test_sharpness_gives_the_second_word_one_percent_at_the_mean_gap() -> None:
    scores = torch.tensor([[3.0, 1.0, 0.0], [0.0, 5.0, 1.0]])  # gaps of 2 and 4
    assert math.isclose(math.exp(-3 * sharpness(scores)), 0.01)
    assert sharpness(scores[:, :1]) == 1


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([0.25] * 4, [1.0] * 4),
        ([0.5, 0.5, 0, 0], [1.0, 1.0, 0, 0]),
        ([0.0] * 4, [0.0] * 4),
        ([0, 1.0, 0, 0], [0, 1.0, 0, 0]),
    ],
)
def test_kept_positions_count_one_each(weights: list[float], expected: list[float]) -> None:
    found = effective_counts(torch.tensor([weights]))
    torch.testing.assert_close(found, torch.tensor([expected]))


def test_uneven_weights_sum_to_the_effective_number_of_positions() -> None:
    w = features(3, 7, 1).abs().squeeze(-1)
    found = effective_counts(w / w.sum(1, keepdim=True))
    assert found is not None
    torch.testing.assert_close(found.sum(1), w.sum(1) ** 2 / (w * w).sum(1))
    torch.testing.assert_close(found / found[:, :1], w / w[:, :1])
