"""The pool of Pade and Taylor roots, in float64; the roots themselves are in tests/ops."""

import numpy as np
import pytest
import scipy.interpolate
import scipy.linalg
import scipy.special
import torch
from torch import Tensor

from cases import features, hard_features
from covpool import create_pool
from covpool.ops import unvech


def direct(x: Tensor, approximation: str, degree: int) -> Tensor:
    """vech of sqrt(t) p(w) / q(w), w = I - Sigma / t, by numpy's eigenvalues and scipy's approximant of sqrt(1 - w)."""
    if approximation == "pade":
        series = [(-1) ** k * scipy.special.binom(0.5, k) for k in range(2 * degree + 1)]
        p, q = scipy.interpolate.pade(series, degree)
    else:
        series = [(-1) ** k * scipy.special.binom(0.5, k) for k in range(degree + 1)]
        p, q = np.poly1d(series[::-1]), np.poly1d([1])
    rows, columns = np.triu_indices(x.shape[-1])
    vectors = []
    for item in x.numpy():
        sigma = np.cov(item.T, bias=True)
        t = np.linalg.norm(sigma)
        values, u = np.linalg.eigh(np.eye(len(sigma)) - sigma / t)
        vectors.append((t**0.5 * u * (p(values) / q(values)) @ u.T)[rows, columns])
    return torch.from_numpy(np.stack(vectors))


@pytest.mark.parametrize(
    ("options", "approximation", "degree"),
    [
        ({}, "pade", 5),
        ({"degree": 2}, "pade", 2),
        ({"approximation": "taylor"}, "taylor", 10),
        ({"approximation": "taylor", "degree": 3}, "taylor", 3),
    ],
)
@pytest.mark.parametrize("n", [4, 30])
def test_equals_the_definition(n: int, options: dict[str, object], approximation: str, degree: int) -> None:
    x = features(2, n, 6)
    torch.testing.assert_close(
        create_pool("mpa", 6, **options)(x), direct(x, approximation, degree), rtol=1e-8, atol=1e-9
    )


def test_squared_gives_the_covariance_of_well_conditioned_features() -> None:
    x = features(2, 400, 4)
    z = unvech(create_pool("mpa", 4)(x))
    sigma = torch.from_numpy(np.stack([np.cov(item.numpy().T, bias=True) for item in x]))
    torch.testing.assert_close(z @ z, sigma, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("approximation", ["pade", "taylor"])
def test_gradient_of_the_computed_value(approximation: str) -> None:
    pool = create_pool("mpa", 3, approximation=approximation, backward="autograd")
    for n in (2, 5):
        assert torch.autograd.gradcheck(pool, features(1, n, 3).requires_grad_())


@pytest.mark.parametrize(("backward", "tolerance"), [("iterative", 5e-3), ("lyapunov", 1e-9)])
def test_the_published_gradient_solves_the_lyapunov_equation(backward: str, tolerance: float) -> None:
    """dl/dx = 2 / n (x - mean) X with Z X + X Z = sym(G), Z the computed root."""
    x, g = features(1, 7, 5), features(1, 1, 15, seed=1)[0]
    pool = create_pool("mpa", 5, backward=backward)
    leaf = x.clone().requires_grad_()
    z = pool(leaf)
    (dx,) = torch.autograd.grad((z * g).sum(), leaf)
    upstream = torch.zeros(5, 5, dtype=torch.float64)
    upstream[tuple(torch.triu_indices(5, 5))] = g[0]
    right = (upstream + upstream.T) / 2
    solution = scipy.linalg.solve_continuous_lyapunov(unvech(z.detach())[0].numpy(), right.numpy())
    expected = 2 / 7 * (x[0] - x[0].mean(0)) @ torch.from_numpy(solution)
    assert float((dx[0] - expected).norm() / expected.norm()) <= tolerance


@pytest.mark.parametrize("approximation", ["pade", "taylor"])
@pytest.mark.parametrize("backward", ["iterative", "lyapunov", "autograd"])
def test_every_option_is_finite_on_hard_cases(approximation: str, backward: str) -> None:
    pool = create_pool("mpa", 16, approximation=approximation, backward=backward)
    for x in hard_features().values():
        x.requires_grad_()
        z = pool(x)
        (dx,) = torch.autograd.grad(z.sum(), x)
        assert z.isfinite().all() and dx.isfinite().all()


@pytest.mark.parametrize(
    "option", [{"approximation": "pad"}, {"backward": "svd"}, {"degree": 0}, {"steps": 0}], ids=str
)
def test_wrong_options_are_refused_when_the_pool_is_built(option: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"`{next(iter(option))}` must be"):
        create_pool("mpa", 4, **option)
