"""Spectra before and after a pool, against numpy in float64."""

import numpy as np
import pytest
import torch
from torch import Tensor

import covpool
from covpool.diagnostics import log_histogram, pool_spectra, spectrum


def eigenvalues(x: Tensor, *, centered: bool = True) -> np.ndarray:
    """Compute the eigenvalues of the covariance of features (n, c), largest first."""
    features = x.double().numpy()
    mean = features.mean(0) if centered else np.zeros(features.shape[1])
    sigma = sum(np.outer(row - mean, row - mean) for row in features) / len(features)
    return np.linalg.eigvalsh(sigma)[::-1]


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize(("n", "c"), [(1, 3), (3, 1), (5, 9), (9, 5), (6, 6)])
def test_spectrum_is_that_of_the_covariance(n: int, c: int, centered: bool) -> None:
    x = torch.randn(2, n, c) + 3
    found = spectrum(x, centered=centered)
    assert found.shape == (2, c) and found.dtype == torch.float64
    for values, one in zip(found, x, strict=True):
        expected = eigenvalues(one, centered=centered)
        np.testing.assert_allclose(values.numpy(), expected, atol=1e-13 * max(expected[0], 1))


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_null_directions_are_zero_at_any_scale(scale: float) -> None:
    x = torch.randn(5, 12) * scale
    found = spectrum(x)
    assert int((found > 0).sum()) == 4, "five points span four directions about their mean"
    assert torch.allclose(found / scale**2, spectrum(x / scale), rtol=1e-5)


def test_degenerate_maps_have_zero_spectra() -> None:
    assert spectrum(torch.zeros(4, 3)).eq(0).all()
    assert spectrum(torch.full((4, 3), 7.0)).eq(0).all(), "constant"
    assert spectrum(torch.randn(0, 4, 3)).shape == (0, 3)
    dead = torch.randn(30, 4)
    dead[:, 1:3] = 0
    assert int((spectrum(dead) > 0).sum()) == 2


def newton_schulz(value: float, t: float, iterations: int, postcomp: bool) -> float:
    y, p = value / t, 1.0
    for _ in range(iterations):
        half = (3 - p * y) / 2
        y, p = y * half, half * p
    return y * t**0.5 if postcomp else y


@pytest.mark.parametrize("positions", [(3, 3), (6, 5)])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cov", {}),
        ("dropcov", {}),
        ("mpn", {}),
        ("mpn", {"alpha": 0.7}),
        ("mpn", {"normalization": "spectral"}),
        ("mpn", {"normalization": "frobenius"}),
        ("isqrt", {"iterations": 3}),
        ("isqrt", {"prenorm": "frobenius", "postcomp": False}),
        ("deepo2p", {"vectorization": "full"}),
        ("deepo2p", {"vectorization": "triangle", "eps": 0.1}),
        ("improved_bcnn", {}),
    ],
    ids=lambda value: str(value),
)
def test_the_normalization_maps_eigenvalues_before_to_after(
    name: str, options: dict[str, object], positions: tuple[int, int]
) -> None:
    x = torch.randn(2, 16, *positions).relu()
    found = pool_spectra(covpool.create_pool(name, 16, **options), x)
    centered = name not in ("deepo2p", "improved_bcnn")
    assert found.centered == centered and found.positions == positions[0] * positions[1]
    assert found.after is not None
    for before, after, one in zip(found.before, found.after, x, strict=True):
        values = eigenvalues(one.flatten(1).T, centered=centered).clip(0)
        values[values < 1e-12] = 0
        np.testing.assert_allclose(before, values, atol=1e-12)
        expected = np.array(sorted(map(_function(name, options, values), values), reverse=True))
        np.testing.assert_allclose(after, expected, atol=1e-7)


def _function(name: str, options: dict[str, object], values: np.ndarray) -> object:
    if name == "deepo2p":
        return lambda v: np.log(v + options.get("eps", 1e-3))
    if name == "isqrt":
        t = float(np.linalg.norm(values) if options.get("prenorm") == "frobenius" else values.sum())
        return lambda v: newton_schulz(v, t, options.get("iterations", 5), options.get("postcomp", True))
    alpha = 1.0 if name in ("cov", "dropcov") else options.get("alpha", 0.5)
    norms = {"spectral": np.max, "frobenius": np.linalg.norm, None: lambda _: 1.0}
    return lambda v: v**alpha / norms[options.get("normalization")](values**alpha)


def test_spectra_are_those_after_the_reduction() -> None:
    pool = covpool.create_pool("isqrt", 8, reduce_to=3).eval()
    x = torch.randn(2, 8, 4, 4)
    reduced = pool.reduce[0](x, None)
    found = pool_spectra(pool, x)
    for values, one in zip(found.before, reduced, strict=True):
        np.testing.assert_allclose(values, eigenvalues(one.detach().flatten(1).T), atol=1e-6)
    assert pool.reduce[0](x, None).dtype == torch.float32, "the pool itself is not changed"


@pytest.mark.parametrize("name", covpool.list_pools())
def test_every_pool_has_a_spectrum_of_its_input(name: str) -> None:
    x = torch.randn(2, 16, 5, 5)
    found = pool_spectra(covpool.create_pool(name, 16), x)
    assert found.before.shape == (2, 16)
    np.testing.assert_allclose(found.before[0], eigenvalues(x[0].flatten(1).T, centered=found.centered), atol=1e-10)
    assert found.after is None or found.after.isfinite().all()


def test_tokens_and_several_feature_tensors() -> None:
    tokens = torch.randn(2, 7, 16)
    np.testing.assert_allclose(
        pool_spectra(covpool.create_pool("mpn", 16), tokens).before[1], eigenvalues(tokens[1]), atol=1e-10
    )
    maps = torch.randn(2, 6, 4, 4), torch.randn(2, 4, 4, 4)
    found = pool_spectra(covpool.create_pool("cross_cov", (6, 4)), *maps)
    assert found.before.shape == (2, 6) and found.after is None


def test_histogram_counts_every_eigenvalue_once() -> None:
    values = 10 ** torch.linspace(-3, 3, 601, dtype=torch.float64)
    found = log_histogram(torch.cat((values, torch.zeros(99), -torch.ones(1))), bins=6)
    assert found.edges.tolist() == pytest.approx([-3, -2, -1, 0, 1, 2, 3])
    expected, _ = np.histogram(values.log10().numpy(), bins=found.edges.numpy())
    np.testing.assert_allclose(found.share * 701, expected, atol=1.0)  # a value on an edge may fall on either side
    assert float(found.share.sum()) + found.zero == pytest.approx(1) and found.zero == pytest.approx(100 / 701)


def test_histogram_outside_its_span_and_without_values() -> None:
    found = log_histogram(torch.tensor([1e-9, 1.0, 1e9]), bins=3, span=(-1.5, 1.5))
    assert found.share.tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert log_histogram(torch.zeros(5)).zero == 1
    assert float(log_histogram(torch.full((4,), 2.0)).share.sum()) == 1
    assert log_histogram(torch.zeros(0)).zero == 0


def test_mistakes_are_refused() -> None:
    with pytest.raises(ValueError, match="n, c >= 1"):
        spectrum(torch.randn(3))
    with pytest.raises(TypeError, match="floating"):
        log_histogram(torch.arange(3))
