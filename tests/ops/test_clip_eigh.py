"""covpool.ops.clip_eigh: ReEig and LogEig of SPDNet."""

import numpy as np
import pytest
import scipy.linalg
import torch

from cases import features, hard_matrices, spd
from covpool.ops import clip_eigh, covariance
from ops.oracles import assert_gradient, gradient, randn, refuses, relative_error, rotation

A = spd(4.0, 2.5, 1.3, 0.6, 0.2, 0.05)
BOUNDS = {"low": 0.3, "high": 2.0}


def test_reeig_leaves_a_matrix_inside_the_interval_alone() -> None:
    torch.testing.assert_close(clip_eigh(A), A)
    torch.testing.assert_close(gradient(clip_eigh, A, g := randn(6, 6)), (g + g.T) / 2)


def test_eigenvalues_are_clipped_and_eigenvectors_kept() -> None:
    z = clip_eigh(A, **BOUNDS)
    values = np.linalg.eigvalsh(z.numpy())
    np.testing.assert_allclose(values, [0.3, 0.3, 0.6, 1.3, 2.0, 2.0])
    torch.testing.assert_close(z @ A, A @ z)


def test_the_usual_bounds_are_four_orders_of_magnitude_around_one() -> None:
    found = clip_eigh(torch.diag(torch.tensor([0.0, 1e-4, 1.0, 1e4, 1e6], dtype=torch.float64))).diagonal()
    torch.testing.assert_close(found, torch.tensor([1e-4, 1e-4, 1.0, 1e4, 1e4], dtype=torch.float64))


def test_logeig_of_a_diagonal_matrix_and_scipys_logarithm() -> None:
    diagonal = torch.tensor([0.5, 3.0, 7.0], dtype=torch.float64)
    torch.testing.assert_close(clip_eigh(torch.diag(diagonal), log=True), torch.diag(diagonal.log()))
    expected = scipy.linalg.logm(clip_eigh(A, **BOUNDS).numpy())
    assert relative_error(clip_eigh(A, log=True, **BOUNDS), torch.from_numpy(np.real(expected))) <= 1e-12


@pytest.mark.parametrize("log", [False, True])
def test_gradient_with_eigenvalues_inside_below_and_above(log: bool) -> None:
    assert_gradient(lambda a: clip_eigh(a, log=log, **BOUNDS), A)
    assert_gradient(lambda x: clip_eigh(covariance(x), log=log, **BOUNDS), features(1, 4, 7)[0])


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("name", ["repeated", "multiple_of_identity", "nearly_repeated", "order_one"])
def test_gradient_on_hard_spectra(name: str, log: bool) -> None:
    assert_gradient(lambda a: clip_eigh(a, low=0.1, high=2.7, log=log), hard_matrices()[name], tol=1e-5)


def test_gradient_of_the_logarithm_at_a_multiple_of_the_identity_in_closed_form() -> None:
    g = randn(5, 5)
    a = hard_matrices()["multiple_of_identity"]
    torch.testing.assert_close(gradient(lambda a: clip_eigh(a, log=True), a, g), (g + g.T) / 5)
    assert (gradient(lambda a: clip_eigh(a, high=2.0, log=True), a, g) == 0).all()


def test_equivariance() -> None:
    q = rotation(6)
    torch.testing.assert_close(clip_eigh(q @ A @ q.T, **BOUNDS), q @ clip_eigh(A, **BOUNDS) @ q.T)


def test_zero_and_negative_eigenvalues_become_the_lower_bound() -> None:
    a = torch.diag(torch.tensor([0.0, -3.0]))
    torch.testing.assert_close(clip_eigh(a, low=0.5), 0.5 * torch.eye(2))
    torch.testing.assert_close(clip_eigh(a, low=0.5, log=True), np.log(0.5) * torch.eye(2))
    assert torch.equal(gradient(lambda a: clip_eigh(a, low=0.5), a, torch.ones(2, 2)), torch.zeros(2, 2))


def test_gradcheck_forward_and_batched() -> None:
    a = torch.stack([A[:3, :3], A[1:4, 1:4]]).requires_grad_()
    assert torch.autograd.gradcheck(lambda a: clip_eigh(a, **BOUNDS), a, check_forward_ad=True, check_batched_grad=True)


def test_refusals() -> None:
    with refuses(ValueError, "0 < low < high", "low=2.0, high=1.0"):
        clip_eigh(A, low=2.0, high=1.0)
    with refuses(ValueError, "`a`", "(2, 3)"):
        clip_eigh(torch.ones(2, 3))
    a = A.clone().requires_grad_()
    (da,) = torch.autograd.grad(clip_eigh(a).sum(), a, create_graph=True)
    with refuses(RuntimeError, "second derivatives"):
        da.sum().backward()
