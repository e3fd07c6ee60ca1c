"""covpool.ops.lyapunov: a x + x a = q."""

import pytest
import scipy.linalg
import torch
from torch import Tensor

from cases import CHANNELS, hard_matrices, spd
from covpool.ops import lyapunov_solve
from ops import reference
from ops.oracles import assert_gradient, finite_difference, gradient, randn, refuses, relative_error, rotation


def positive(c: int, seed: int = 0) -> Tensor:
    m = randn(c, c, seed=seed)
    return m @ m.T / c + 0.5 * torch.eye(c, dtype=torch.float64)


@pytest.mark.parametrize("c", CHANNELS)
def test_solution_is_scipys_for_any_right_hand_side(c: int) -> None:
    a, q = positive(c), randn(c, c, seed=1)
    x = lyapunov_solve(a, q)
    expected = torch.from_numpy(scipy.linalg.solve_continuous_lyapunov(a.numpy(), q.numpy()))
    assert relative_error(x, expected) <= 1e-12
    assert relative_error(a @ x + x @ a, q) <= 1e-12


@pytest.mark.parametrize("name", hard_matrices())
def test_equation_holds_on_hard_spectra(name: str) -> None:
    a = hard_matrices()[name]
    q = randn(*a.shape, seed=1)
    x = lyapunov_solve(a, q)
    assert relative_error(a @ x + x @ a, q) <= (1e-6 if name == "ill_conditioned" else 1e-13)


def test_exact_adjoint_of_the_square_root() -> None:
    """With a = Sigma^(1/2), x is the gradient in Sigma: finite differences of the root are the oracle."""
    sigma, g, h = spd(3.0, 1.0, 0.4, 0.1), randn(4, 4), randn(4, 4, seed=1)
    h = h + h.T
    x = lyapunov_solve(reference.power(sigma, 0.5), g)
    expected = (g * finite_difference(lambda s: reference.power(s, 0.5), sigma, h)).sum()
    torch.testing.assert_close((x * h).sum(), expected, rtol=1e-7, atol=1e-9)


def test_equivariance() -> None:
    a, q, u = positive(5), randn(5, 5, seed=1), rotation(5)
    torch.testing.assert_close(lyapunov_solve(u @ a @ u.T, u @ q @ u.T), u @ lyapunov_solve(a, q) @ u.T)


def test_multiple_of_the_identity() -> None:
    q = randn(4, 4)
    torch.testing.assert_close(lyapunov_solve(3 * torch.eye(4).double(), q), q / 6)


def test_singular_matrix_gives_the_solution_of_least_norm() -> None:
    a = torch.diag(torch.tensor([2.0, 0.0, 0.0], dtype=torch.float64))
    expected = torch.tensor([[0.25, 0.5, 0.5], [0.5, 0, 0], [0.5, 0, 0]], dtype=torch.float64)
    torch.testing.assert_close(lyapunov_solve(a, torch.ones(3, 3).double()), expected)


def test_zero_matrix_gives_zero_with_finite_gradients() -> None:
    a, q = torch.zeros(2, 3, 3, requires_grad=True), torch.ones(2, 3, 3, requires_grad=True)
    x = lyapunov_solve(a, q)
    assert torch.equal(x, torch.zeros(2, 3, 3))
    for g in torch.autograd.grad(x.sum(), (a, q)):
        assert g.isfinite().all()


@pytest.mark.parametrize("name", ["distinct", "repeated", "multiple_of_identity", "order_one"])
def test_gradients_by_finite_differences(name: str) -> None:
    a = hard_matrices()[name]
    q = randn(*a.shape, seed=1)
    assert_gradient(lambda a: lyapunov_solve(a, q), a, tol=1e-5)
    assert_gradient(lambda q: lyapunov_solve(a, q), q)


def test_derivatives_of_every_kind() -> None:
    a, q = positive(3).requires_grad_(), randn(3, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lyapunov_solve, (a, q), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(lyapunov_solve, (a, q), check_fwd_over_rev=True)


def test_hessian_in_one_dimension() -> None:
    """x = q / (2 a), so x'' = q / a^3."""
    a, q = torch.tensor([[1.7]]).double(), torch.tensor([[3.0]]).double()
    hessian = torch.func.hessian(lambda a: lyapunov_solve(a, q).sum())(a)
    torch.testing.assert_close(hessian.flatten(), (q / a**3).flatten())


def test_vmap_and_broadcast() -> None:
    a, q = positive(4), randn(3, 4, 4, seed=1)
    expected = torch.stack([lyapunov_solve(a, item) for item in q])
    torch.testing.assert_close(lyapunov_solve(a, q), expected)
    torch.testing.assert_close(torch.vmap(lyapunov_solve, in_dims=(None, 0))(a, q), expected)
    da = gradient(lambda a: lyapunov_solve(a, q), a, torch.ones_like(q))
    summed = sum(gradient(lambda a, item=item: lyapunov_solve(a, item), a, torch.ones_like(item)) for item in q)
    torch.testing.assert_close(da, summed)


def test_only_the_symmetric_part_of_a_counts() -> None:
    a, q = positive(4), randn(4, 4, seed=1)
    skew = randn(4, 4, seed=2).triu(1)
    torch.testing.assert_close(lyapunov_solve(a + skew - skew.T, q), lyapunov_solve(a, q))


def test_half_precision_gives_float32() -> None:
    a, q = positive(4), randn(4, 4, seed=1)
    x = lyapunov_solve(a.half(), q.half())
    assert x.dtype == torch.float32
    assert relative_error(x, lyapunov_solve(a.half().double(), q.half().double())) <= 1e-5


@pytest.mark.parametrize("argument", [0, 1])
def test_a_fault_in_either_argument_stays_in_its_item(argument: int) -> None:
    arguments = positive(3).repeat(3, 1, 1), randn(3, 3, 3, seed=1)
    sound = lyapunov_solve(*arguments)
    arguments[argument][1, 0, 0] = torch.nan
    x = lyapunov_solve(*arguments)
    assert x[1].isnan().any()
    assert torch.equal(x[::2], sound[::2])


def test_refusals_name_what_came() -> None:
    with refuses(ValueError, "`a`", "(..., c, c)", "(2, 3)"):
        lyapunov_solve(torch.ones(2, 3), torch.ones(2, 2))
    with refuses(ValueError, "`q`", "(3, 2)"):
        lyapunov_solve(torch.ones(2, 2), torch.ones(3, 2))
    with refuses(ValueError, "same order", "(2, 2)", "(3, 3)"):
        lyapunov_solve(torch.ones(2, 2), torch.ones(3, 3))
    with refuses(TypeError, "`q`", "int64"):
        lyapunov_solve(torch.ones(2, 2), torch.ones(2, 2, dtype=torch.long))
