"""Pools on frozen features: what `fit` and `probe` share."""

import pytest
import torch
from torch import Tensor, nn

from covpool import create_pool, list_pools
from covpool.studies._feature_maps import Maps
from covpool.studies._frozen import fit_frozen, pooled_vectors

CLASSES = 3


def correlated_maps(n: int, seed: int, channels: int = 12) -> Maps:
    """Features whose classes differ in their covariance, not in their mean, followed by their flips."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.arange(n) % CLASSES
    mixes = torch.randn(CLASSES, channels, channels, generator=torch.Generator().manual_seed(99))
    x = torch.einsum("ndc,nchw->ndhw", mixes[targets], torch.randn(n, channels, 6, 6, generator=generator))
    x = x - x.mean((2, 3), keepdim=True) + 0.1 * torch.randn(n, channels, 1, 1, generator=generator)
    return Maps(torch.cat([x, x.flip(-1)]).half(), targets)


def accuracy(scores: Tensor, maps: Maps) -> float:
    return float((scores.argmax(1) == maps.targets).double().mean())


def test_covariance_finds_what_the_mean_cannot() -> None:
    train, test = correlated_maps(60, 0), correlated_maps(60, 1)
    average = fit_frozen(create_pool("avg", 12), train, CLASSES)
    isqrt = fit_frozen(create_pool("isqrt", 12, reduce_to=8, reduce_kind="linear"), train, CLASSES)
    assert accuracy(isqrt.scores(test), test) > 0.9 > 0.6 > accuracy(average.scores(test), test)
    assert isqrt.chosen.accuracy > 0.9


def test_the_classifier_becomes_a_layer() -> None:
    train = correlated_maps(30, 0)
    fitted = fit_frozen(create_pool("cov", 12, reduce_to=4, reduce_kind="linear"), train, CLASSES)
    head = nn.Sequential(fitted.pool, fitted.classifier())
    calibrated = fitted.scores(train) / fitted.chosen.temperature
    torch.testing.assert_close(head(train.features[:30].float()), calibrated, atol=1e-4, rtol=1e-4)


def test_fits_are_repeatable() -> None:
    train = correlated_maps(30, 0)
    first, second = (fit_frozen(create_pool("netvlad", 12, reduce_to=4), train, CLASSES).scores(train) for _ in "ab")
    assert torch.equal(first, second)


@pytest.mark.parametrize("name", list_pools())
def test_every_pool_gives_finite_vectors(name: str) -> None:
    options = {"num_classes": CLASSES} if name in ("lrbp", "fbn") else {}
    train = correlated_maps(6, 0, channels=16)
    pool = create_pool(name, 16, **options)
    vectors = pooled_vectors(pool, train)
    assert len(vectors) == 12 and vectors.isfinite().all()
