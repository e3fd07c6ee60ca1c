"""covpool.ops.sqrtm_lyapunov: any square root, differentiated through its Lyapunov equation."""

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor

from cases import features, hard_matrices, spd
from covpool.ops import covariance, powm_eigh, sqrtm_denman_beavers, sqrtm_lyapunov, sqrtm_newton_schulz
from ops import reference
from ops.oracles import assert_gradient, gradient, randn, refuses, relative_error

ITERATED = {"newton_schulz": 25, "denman_beavers": 12}
A = spd(3.0, 1.4, 0.8, 0.3, 0.1)


def solution(a: Tensor, g: Tensor) -> Tensor:
    """scipy's solution of the Lyapunov equation of scipy's root."""
    root = np.real(scipy.linalg.sqrtm(a.numpy()))
    return torch.from_numpy(scipy.linalg.solve_continuous_lyapunov(root, ((g + g.T) / 2).numpy()))


@pytest.mark.parametrize("forward", ["eigh", "newton_schulz", "denman_beavers"])
@pytest.mark.parametrize("steps", [None, 3])
def test_value_is_that_of_the_forward(forward: str, steps: int | None) -> None:
    z = sqrtm_lyapunov(A, forward=forward, iterations=4, steps=steps)
    expected = {
        "eigh": lambda: reference.power(A, 0.5),
        "newton_schulz": lambda: sqrtm_newton_schulz(A, iterations=4, prenorm="frobenius"),
        "denman_beavers": lambda: sqrtm_denman_beavers(A, iterations=4),
    }[forward]()
    assert relative_error(z, expected) <= 1e-13


@pytest.mark.parametrize("forward", ["eigh", "newton_schulz", "denman_beavers"])
def test_exact_gradient_is_scipys_solution_however_few_iterations(forward: str) -> None:
    g = randn(5, 5)
    da = gradient(lambda a: sqrtm_lyapunov(a, forward=forward, iterations=2), A, g)
    assert relative_error(da, solution(A, g)) <= 1e-12


@pytest.mark.parametrize("forward", ITERATED)
def test_of_a_converged_iteration_it_is_the_derivative(forward: str) -> None:
    assert_gradient(lambda a: sqrtm_lyapunov(a, forward=forward, iterations=ITERATED[forward]), A, tol=1e-4)
    assert_gradient(lambda a: sqrtm_lyapunov(a, forward=forward, iterations=ITERATED[forward], steps=25), A, tol=1e-4)


def test_commuting_case_in_closed_form() -> None:
    roots = torch.tensor([2.0, 1.0, 0.5], dtype=torch.float64)
    g = randn(3, 3)
    g = g + g.T
    for forward in ("eigh", "newton_schulz"):
        da = gradient(lambda a, f=forward: sqrtm_lyapunov(a, forward=f, iterations=20), torch.diag(roots**2), g)
        torch.testing.assert_close(da, g / (roots[:, None] + roots))


def test_iterative_solution_needs_fifteen_to_twenty_steps_at_condition_four_thousand() -> None:
    a, g = spd(*np.logspace(0, -np.log10(3.7e3), 24)), randn(24, 24)
    exact = solution(a, g)
    error = {
        t: relative_error(gradient(lambda a, t=t: sqrtm_lyapunov(a, steps=t), a, g), exact) for t in (5, 10, 15, 20)
    }
    assert error[5] > 0.4 and 0.1 < error[10] < error[5]
    assert 1e-9 < error[15] < 1e-4
    assert error[20] < 1e-13


def test_iterative_solution_of_a_singular_root_tends_to_half_between_range_and_null_space() -> None:
    a, g = torch.diag(torch.tensor([4.0, 1.0, 0.0, 0.0], dtype=torch.float64)), torch.ones(4, 4, dtype=torch.float64)
    exact = gradient(sqrtm_lyapunov, a, g)
    for steps in (20, 30):
        da = gradient(lambda a, t=steps: sqrtm_lyapunov(a, steps=t), a, g)
        torch.testing.assert_close(da[:2, :2], exact[:2, :2])
        torch.testing.assert_close(da[:2, 2:], exact[:2, 2:] / 2)
        growth = torch.full((2, 2), 1.5**steps / (2 * 5**0.5), dtype=torch.float64)  # |Z|_F = sqrt(5)
        torch.testing.assert_close(da[2:, 2:], growth)


def test_iterative_gradient_of_the_features_stays_a_third_off() -> None:
    """At 256 channels and 196 positions the error is 36 %, for any number of steps."""
    x, g = features(1, 196, 256)[0].relu(), randn(256, 256, seed=1)

    def gradient_of_features(steps: int | None) -> Tensor:
        return gradient(lambda x: sqrtm_lyapunov(covariance(x, centered=False), steps=steps), x, g)

    exact = gradient_of_features(None)
    for steps in (15, 20):
        assert relative_error(gradient_of_features(steps), exact) == pytest.approx(0.36, abs=0.01)


@pytest.mark.parametrize("name", hard_matrices())
@pytest.mark.parametrize("forward", ITERATED)
def test_exact_gradient_on_hard_spectra_is_that_of_powm(name: str, forward: str) -> None:
    a = hard_matrices()[name]
    g = randn(*a.shape)
    da = gradient(lambda a: sqrtm_lyapunov(a, forward=forward), a, g)
    assert relative_error(da, gradient(lambda a: powm_eigh(a, 0.5), a, g)) <= 1e-7


@pytest.mark.parametrize("forward", ["eigh", "newton_schulz", "denman_beavers"])
@pytest.mark.parametrize("steps", [None, 5])
@pytest.mark.parametrize("scale", [0.0, 1e-16, 1e16])
def test_zero_and_extreme_scales_are_finite(forward: str, steps: int | None, scale: float) -> None:
    x = features(2, 3, 6, dtype=torch.float32)
    a = (covariance(x) * scale).requires_grad_()
    z = sqrtm_lyapunov(a, forward=forward, steps=steps)
    (da,) = torch.autograd.grad(z.sum(), a)
    assert z.isfinite().all() and da.isfinite().all()
    if scale == 0:
        assert (z == 0).all() and (da == 0).all()


def test_gradcheck_forward_and_batched() -> None:
    a = torch.stack([A[:3, :3], A[1:4, 1:4]]).requires_grad_()

    def root(a: Tensor) -> Tensor:
        return sqrtm_lyapunov(a, forward="newton_schulz", iterations=25)

    assert torch.autograd.gradcheck(root, a, check_forward_ad=True, check_batched_grad=True)


def test_second_derivatives_are_refused() -> None:
    a = A.clone().requires_grad_()
    (da,) = torch.autograd.grad(sqrtm_lyapunov(a, steps=5).sum(), a, create_graph=True)
    with refuses(RuntimeError, "second derivatives"):
        da.square().sum().backward()


def test_refusals_name_what_came() -> None:
    with refuses(ValueError, "`forward`", "svd"):
        sqrtm_lyapunov(A, forward="svd")  # type: ignore[arg-type]
    with refuses(ValueError, "`steps`", "0"):
        sqrtm_lyapunov(A, steps=0)
    with refuses(ValueError, "`a`", "(2, 3)"):
        sqrtm_lyapunov(torch.ones(2, 3))
