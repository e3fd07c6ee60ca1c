"""Float32 gradients on very small features and on maps of rank one.

On a map of rank one, the root of the second moment has an infinite derivative in the directions that the map does not
span. Which directions those are is lost when the map is rounded to float32: one rounding of the features changes the
float64 gradient by a multiple of its largest entry. Such a gradient is ill-posed, and no float32 computation can agree
with it. Where the float64 gradient is stable, the float32 gradient must agree.
"""

import pytest
import torch
from torch import Tensor

import covpool

ROUNDING = 2.0**-24


def rank_one_map(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(8, 1, generator=generator) @ torch.randn(1, 25, generator=generator)


def gradient(name: str, x: Tensor) -> Tensor:
    x = x.unflatten(-1, (5, 5)).unsqueeze(0).clone().requires_grad_()
    z = covpool.create_pool(name, 8).to(x.dtype)(x)
    (found,) = torch.autograd.grad((z * torch.linspace(-1, 1, z.shape[1], dtype=z.dtype)).sum(), x)
    return found.double()


def difference(got: Tensor, expected: Tensor) -> float:
    return float((got - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("name", ["mpn", "improved_bcnn"])
def test_gradients_on_rank_one_maps_agree_or_are_ill_posed(name: str) -> None:
    agreed = 0
    for seed in range(20):
        x = rank_one_map(seed) * 0.01
        expected, got = gradient(name, x.double()), gradient(name, x)
        rounded = x.double() * (1 + ROUNDING * torch.randn(8, 25, dtype=torch.float64))
        is_stable = difference(gradient(name, rounded), expected) < 0.1
        error = difference(got, expected)
        assert got.isfinite().all() and error < (1e-4 if is_stable else 1.5)
        agreed += error < 1e-4
    assert agreed >= 15


@pytest.mark.parametrize(("scale", "bound"), [(0.01, 1e-4), (1.0, 1e-4), (10.0, 3e-3), (100.0, 0.1)])
def test_the_error_of_gaussian_grows_as_eps_drowns_in_rounding(scale: float, bound: float) -> None:
    for seed in range(10):
        x = rank_one_map(seed) * scale
        assert difference(gradient("gaussian", x), gradient("gaussian", x.double())) < bound


@pytest.mark.parametrize("rank", [1, 2, None])
def test_svpn_is_finite_on_features_near_the_smallest_numbers(rank: int | None) -> None:
    x = torch.randn(2, 8, 5, 5, generator=torch.Generator().manual_seed(0))
    for seed in range(20):  # which exponents are hard depends on the weights
        torch.manual_seed(seed)
        pool = covpool.create_pool("svpn", 8, heads=2, head_features=4, rank=rank, iterations=2)
        for exponent in torch.arange(-26, -14, 0.25).tolist():
            tiny = (x * 10**exponent).requires_grad_()
            z = pool(tiny)
            (found,) = torch.autograd.grad(z.sum(), tiny)
            assert z.isfinite().all() and found.isfinite().all(), (seed, exponent)
