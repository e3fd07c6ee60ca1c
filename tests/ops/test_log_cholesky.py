"""covpool.ops.log_cholesky: against numpy's factor, and the invariants of Lin's metric."""

import numpy as np
import pytest
import torch
from torch import Tensor

from cases import CHANNELS, features, spd
from covpool.ops import covariance, log_cholesky
from ops.oracles import assert_gradient, randn, refuses, relative_error


def positive(c: int, seed: int = 0) -> Tensor:
    m = randn(c, c, seed=seed)
    return m @ m.T / c + 0.5 * torch.eye(c, dtype=torch.float64)


def direct(a: Tensor, e: float) -> Tensor:
    factor = np.linalg.cholesky(a.numpy() + e * np.eye(len(a)))
    return torch.from_numpy(np.tril(factor, -1) + np.diag(np.log(np.diag(factor))))


@pytest.mark.parametrize("relative", [True, False])
@pytest.mark.parametrize("c", CHANNELS)
def test_equals_numpys_factor(c: int, relative: bool) -> None:
    a = positive(c)
    e = 1e-3 * (float(a.trace()) / c if relative else 1)
    assert relative_error(log_cholesky(a, eps=1e-3, relative=relative), direct(a, e)) <= 1e-12


def test_the_factor_comes_back() -> None:
    a = positive(5)
    k = log_cholesky(a, eps=1e-12)
    assert torch.equal(k, k.tril())
    factor = k.tril(-1) + k.diagonal().exp().diag()
    assert relative_error(factor @ factor.T, a) <= 1e-11


def test_powers_of_two_in_order_one() -> None:
    """L = 2 for a = 4: log 2."""
    k = log_cholesky(torch.tensor([[4.0]], dtype=torch.float64), eps=1e-14)
    assert float(k) == pytest.approx(np.log(2), rel=1e-12)


def test_the_distance_is_invariant_under_lins_group_operation() -> None:
    """P . S has the factor strict(L) + strict(K) + diag(L) diag(K); distances to a third one do not change by it."""

    def combine(p: Tensor, s: Tensor) -> Tensor:
        left, right = torch.linalg.cholesky(p), torch.linalg.cholesky(s)
        factor = left.tril(-1) + right.tril(-1) + (left.diagonal() * right.diagonal()).diag()
        return factor @ factor.T

    p, s, r = (positive(4, seed) for seed in range(3))
    before = (log_cholesky(p, eps=1e-13) - log_cholesky(s, eps=1e-13)).norm()
    after = (log_cholesky(combine(p, r), eps=1e-13) - log_cholesky(combine(s, r), eps=1e-13)).norm()
    torch.testing.assert_close(after, before, rtol=1e-9, atol=0)


def test_scaling_shifts_the_diagonal_and_scales_the_rest() -> None:
    a = covariance(features(1, 3, 6))[0]  # singular
    k = log_cholesky(a)
    for scale in (1e-16, 1e16):
        scaled = log_cholesky(scale * a)
        torch.testing.assert_close(scaled.diagonal(), k.diagonal() + 0.5 * np.log(scale), rtol=0, atol=1e-6)
        torch.testing.assert_close(scaled.tril(-1) / scale**0.5, k.tril(-1), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("relative", [True, False])
def test_gradients(relative: bool) -> None:
    def f(a: Tensor) -> Tensor:
        return log_cholesky(a, eps=1e-2, relative=relative)

    assert torch.autograd.gradcheck(f, positive(3).requires_grad_(), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, positive(3).requires_grad_())
    assert_gradient(f, spd(3.0, 1.0, 0.0), tol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("relative", [True, False])
@pytest.mark.parametrize("scale", [0.0, 1e-16, 1.0, 1e16])
def test_singular_matrices_of_any_scale_are_finite(dtype: torch.dtype, relative: bool, scale: float) -> None:
    a = (covariance(features(2, 3, 16, dtype=dtype)) * scale).requires_grad_()
    k = log_cholesky(a, relative=relative)
    (da,) = torch.autograd.grad(k.sum(), a)
    assert k.dtype == dtype
    assert k.isfinite().all() and da.isfinite().all()


def test_an_indefinite_matrix_and_a_fault_give_nan_in_their_items_alone() -> None:
    a = positive(3).repeat(3, 1, 1)
    sound = log_cholesky(a)
    a[1] = torch.diag(torch.tensor([1.0, -1.0, 1.0]))
    k = log_cholesky(a)
    assert k[1].isnan().any() and torch.equal(k[::2], sound[::2])
    a[1] = torch.nan
    assert log_cholesky(a)[1].isnan().any()


def test_refuses_an_eps_of_zero() -> None:
    with refuses(ValueError, "`eps`", "positive", "0"):
        log_cholesky(torch.eye(2), eps=0.0)


def test_a_zero_matrix_gives_eps_itself() -> None:
    expected = torch.full((3,), 0.01, dtype=torch.float64).sqrt().log().diag()
    torch.testing.assert_close(log_cholesky(torch.zeros(3, 3, dtype=torch.float64), eps=0.01), expected)
