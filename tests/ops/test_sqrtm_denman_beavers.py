"""covpool.ops.sqrtm_denman_beavers: against scipy, and on singular matrices."""

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor

from cases import CHANNELS, features, spd
from covpool.ops import covariance, sqrtm_denman_beavers
from ops.oracles import assert_gradient, randn, refuses, relative_error, rotation

A = spd(3.0, 1.4, 0.8, 0.3, 0.1)


def literal(a: Tensor, iterations: int) -> Tensor:
    """The iteration of the paper, on one matrix."""
    t = np.trace(a.numpy())
    y, z = a.numpy() / t, np.eye(len(a))
    for _ in range(iterations):
        y, z = (y + np.linalg.inv(z)) / 2, (z + np.linalg.inv(y)) / 2
    return torch.from_numpy(y * np.sqrt(t))


@pytest.mark.parametrize("iterations", [1, 2, 3, 5, 9])
def test_every_iterate(iterations: int) -> None:
    assert relative_error(sqrtm_denman_beavers(A, iterations=iterations), literal(A, iterations)) <= 1e-12


@pytest.mark.parametrize("c", CHANNELS)
def test_converged_it_is_scipys_root(c: int) -> None:
    m = randn(c, c)
    a = m @ m.T / c + 0.1 * torch.eye(c, dtype=torch.float64)
    z = sqrtm_denman_beavers(a, iterations=14)
    assert relative_error(z, torch.from_numpy(np.real(scipy.linalg.sqrtm(a.numpy())))) <= 1e-12
    assert torch.equal(z, z.mT)


@pytest.mark.parametrize("iterations", [1, 5, 12])
def test_singular_matrices_are_the_limit_of_regular_ones(iterations: int) -> None:
    """The iteration of the paper cannot invert a singular matrix. Here a zero eigenvalue has the root sqrt(t) / 2^T."""
    a = spd(4.0, 1.0, 0.0, 0.0)
    z = sqrtm_denman_beavers(a, iterations=iterations)
    near = literal(a + 1e-9 * torch.eye(4, dtype=torch.float64), iterations)
    torch.testing.assert_close(z, near, rtol=0, atol=1e-6)
    values = np.linalg.eigvalsh(z.numpy())
    np.testing.assert_allclose(values[:2], 5**0.5 / 2**iterations, rtol=1e-9)


def test_what_five_steps_reach() -> None:
    shares = torch.tensor([0.989, 1e-2, 1e-3, 0.0], dtype=torch.float64)
    z = sqrtm_denman_beavers(torch.diag(shares), iterations=5).diagonal()
    expected = shares.sqrt() * torch.tensor([1, 1.004, 1.30, 0]) + torch.tensor([0, 0, 0, 1 / 32])
    torch.testing.assert_close(z, expected, rtol=2e-2, atol=0)


def test_equivariance() -> None:
    q = rotation(5)
    torch.testing.assert_close(sqrtm_denman_beavers(q @ A @ q.T), q @ sqrtm_denman_beavers(A) @ q.T)


@pytest.mark.parametrize("iterations", [1, 3, 8])
def test_gradient_is_that_of_the_iteration_itself(iterations: int) -> None:
    assert_gradient(lambda a: sqrtm_denman_beavers(a, iterations=iterations), A)
    assert_gradient(lambda x: sqrtm_denman_beavers(covariance(x), iterations=iterations), features(1, 4, 7)[0])


def test_derivatives_of_every_kind() -> None:
    a = torch.stack([A[:3, :3], A[1:4, 1:4]]).requires_grad_()
    assert torch.autograd.gradcheck(sqrtm_denman_beavers, a, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(sqrtm_denman_beavers, a)


def test_zero_gives_zero_with_a_zero_gradient() -> None:
    a = torch.zeros(2, 3, 3, requires_grad=True)
    z = sqrtm_denman_beavers(a)
    (da,) = torch.autograd.grad(z.sum(), a)
    assert (z == 0).all() and (da == 0).all()


def test_refusals_name_what_came() -> None:
    with refuses(ValueError, "`a`", "(2, 3)"):
        sqrtm_denman_beavers(torch.ones(2, 3))
    with refuses(ValueError, "`iterations`", "0"):
        sqrtm_denman_beavers(A, iterations=0)
