"""Improved bilinear pooling with every pair of forward and backward, in float64."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy import linalg
from torch import Tensor

from cases import features, hard_features
from covpool import create_pool

POSSIBLE = [
    pair
    for pair in product(
        ("eigh", "newton_schulz", "denman_beavers"), ("lyapunov", "iterative_lyapunov", "k_matrix", "autograd")
    )
    if pair not in (("eigh", "autograd"), ("newton_schulz", "k_matrix"), ("denman_beavers", "k_matrix"))
]
CONVERGED = {"iterations": 20, "backward_steps": 25}
every_pair = pytest.mark.parametrize(("forward", "backward"), POSSIBLE)


def direct(x: Tensor) -> Tensor:
    """Compute the root of the second moment with scipy, then the signed square root and unit length."""
    roots = np.stack([np.real(linalg.sqrtm(f.T @ f / len(f))) for f in x.numpy()]).reshape(len(x), -1)
    z = np.sign(roots) * np.sqrt(np.abs(roots))
    return torch.from_numpy(z / np.linalg.norm(z, axis=1, keepdims=True))


def gradient(x: Tensor, **options: object) -> Tensor:
    x = x.clone().requires_grad_()
    z = create_pool("improved_bcnn", x.shape[2], **options)(x)
    (dx,) = torch.autograd.grad(z, x, features(1, *z.shape, seed=5)[0])
    return dx


@every_pair
def test_value_for_a_regular_moment_equals_scipy(forward: str, backward: str) -> None:
    x = features(2, 40, 5) + 0.3
    pool = create_pool("improved_bcnn", 5, forward=forward, backward=backward, **CONVERGED)
    torch.testing.assert_close(pool(x), direct(x), rtol=0, atol=1e-9)


def test_root_squared_is_the_moment_even_if_singular() -> None:
    """z |z| undoes the signed square root, so it is the root up to a factor."""
    x = features(2, 4, 6)
    z = create_pool("improved_bcnn", 6)(x).unflatten(1, (6, 6))
    root, moment = z * z.abs(), x.mT @ x / 4
    squared = root @ root
    factor = moment.norm(dim=(1, 2), keepdim=True) / squared.norm(dim=(1, 2), keepdim=True)
    torch.testing.assert_close(squared * factor, moment)


def test_one_position_has_a_root_in_closed_form() -> None:
    """(x x^T)^(1/2) = x x^T / |x|, so the result is that of bcnn."""
    x = features(2, 1, 5)
    torch.testing.assert_close(create_pool("improved_bcnn", 5)(x), create_pool("bcnn", 5)(x))


@every_pair
def test_converged_backwards_agree_on_a_regular_moment(forward: str, backward: str) -> None:
    x = features(2, 40, 5) + 0.3
    exact = gradient(x)
    found = gradient(x, forward=forward, backward=backward, **CONVERGED)
    assert float((found - exact).norm() / exact.norm()) <= 1e-9


@pytest.mark.parametrize("n", [3, 6, 40])
def test_default_gradient_is_exact_for_regular_and_singular_moments(n: int) -> None:
    x = (features(1, n, 6) + 0.5).requires_grad_()
    assert torch.autograd.gradcheck(create_pool("improved_bcnn", 6), x, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize(("forward", "iterations"), [("newton_schulz", 3), ("denman_beavers", 3)])
def test_autograd_is_the_derivative_of_the_iteration(forward: str, iterations: int) -> None:
    x = (features(1, 10, 4) + 0.5).requires_grad_()
    pool = create_pool("improved_bcnn", 4, forward=forward, iterations=iterations, backward="autograd")
    assert torch.autograd.gradcheck(pool, x, atol=1e-5, rtol=1e-3)


def five_steps(x: Tensor) -> Tensor:
    """Compute Newton-Schulz as published: divide by the Frobenius norm, iterate five times, multiply by its root."""
    rows = []
    for f in x:
        a, eye = f.T @ f / len(f), torch.eye(f.shape[1], dtype=f.dtype)
        norm = a.square().sum().sqrt()
        y, w = a / norm, eye
        for _ in range(5):
            t = (3 * eye - w @ y) / 2
            y, w = y @ t, t @ w
        rows.append((norm.sqrt() * y).flatten())
    return torch.stack(rows)


def epn(root: Tensor) -> Tensor:
    z = root.sign() * root.abs().sqrt()
    return z / z.norm(dim=1, keepdim=True)


def test_five_iterations_are_the_default() -> None:
    x = features(2, 10, 5) + 0.3
    for backward in ("lyapunov", "autograd"):
        pool = create_pool("improved_bcnn", 5, forward="newton_schulz", backward=backward)
        torch.testing.assert_close(pool(x), epn(five_steps(x)))
    leaf, g = x.clone().requires_grad_(), features(1, 2, 25, seed=5)[0]
    (expected,) = torch.autograd.grad(
        epn(five_steps(leaf)), leaf, g
    )  # the guard of 1e-8 in the slope changes less than 1e-6
    torch.testing.assert_close(
        gradient(x, forward="newton_schulz", backward="autograd"), expected, rtol=1e-5, atol=1e-6
    )


def test_five_steps_of_the_iterative_backward_are_the_default() -> None:
    """a = Z / |Z|, q = G / |Z|; q <- (q (3 I - a^2) - a^T (a^T q - q a)) / 2, a <- a (3 I - a^2) / 2; dA = q / 2."""
    x, g = features(1, 20, 4) + 0.3, features(1, 1, 16, seed=5)[0]
    f = x[0]
    z = torch.from_numpy(np.real(linalg.sqrtm((f.T @ f / 20).numpy())))
    y = z.sign() * z.abs().sqrt()
    u = y / y.norm()
    dz = (g[0].unflatten(0, (4, 4)) - (g[0] @ u.flatten()) * u) / (2 * (z.abs() + 1e-8).sqrt() * y.norm())
    a, q, eye = z / z.norm(), (dz + dz.T) / 2 / z.norm(), torch.eye(4, dtype=torch.float64)
    for _ in range(5):
        t = 3 * eye - a @ a
        q, a = (q @ t - a.T @ (a.T @ q - q @ a)) / 2, a @ t / 2
    found = gradient(x, backward="iterative_lyapunov")
    torch.testing.assert_close(found[0], f @ (q / 2 + q.T / 2) / 20)


def test_newton_schulz_does_not_depend_on_the_scale() -> None:
    x = features(2, 40, 5)
    pool = create_pool("improved_bcnn", 5, forward="newton_schulz", iterations=5, backward="autograd")
    torch.testing.assert_close(pool(7 * x), pool(x))


@every_pair
def test_every_pair_is_finite_on_hard_cases(forward: str, backward: str) -> None:
    pool = create_pool("improved_bcnn", 16, forward=forward, backward=backward)
    for case, x in hard_features().items():
        x.requires_grad_()
        z = pool(x)
        (dx,) = torch.autograd.grad(z, x, torch.linspace(-1, 1, z.numel()).reshape(z.shape))
        assert z.isfinite().all() and dx.isfinite().all(), case
        assert case != "zero" or ((z == 0).all() and (dx == 0).all())


@pytest.mark.parametrize(
    ("forward", "backward", "remedy"),
    [
        ("newton_schulz", "k_matrix", "needs the eigenvectors of forward='eigh'; got forward='newton_schulz'"),
        ("denman_beavers", "k_matrix", "needs the eigenvectors of forward='eigh'; got forward='denman_beavers'"),
        ("eigh", "autograd", "NaN on equal eigenvalues: use backward='k_matrix'"),
    ],
)
def test_impossible_pairs_are_refused_with_a_remedy(forward: str, backward: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        create_pool("improved_bcnn", 4, forward=forward, backward=backward)


@pytest.mark.parametrize("option", [{"forward": "svd"}, {"backward": "svd"}, {"iterations": 0}, {"backward_steps": 0}])
def test_wrong_options_are_refused(option: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"`{next(iter(option))}` must be"):
        create_pool("improved_bcnn", 4, **option)
