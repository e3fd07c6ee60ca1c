"""covpool.ops.lyapunov_newton_schulz: convergence, and the limits on singular matrices."""

import pytest
import scipy.linalg
import torch
from torch import Tensor

from cases import CHANNELS, hard_matrices, spd
from covpool.ops import lyapunov_newton_schulz
from ops.oracles import randn, refuses, relative_error, rotation


def sign_block(a: Tensor, q: Tensor, steps: int) -> Tensor:
    """Half of the upper right block of the Newton-Schulz iterate of the matrix [[a, q], [0, -a]] / |a|_F itself."""
    h = torch.cat((torch.cat((a, q), 1), torch.cat((torch.zeros_like(a), -a), 1))) / a.norm()
    for _ in range(steps):
        h = h @ (3 * torch.eye(len(h), dtype=h.dtype) - h @ h) / 2
    return h[: len(a), len(a) :] / 2


@pytest.mark.parametrize("steps", [1, 2, 5, 8])
@pytest.mark.parametrize("name", hard_matrices())
def test_equals_the_iteration_on_the_block_matrix(name: str, steps: int) -> None:
    a = hard_matrices()[name]
    q = randn(*a.shape, seed=1)
    assert relative_error(lyapunov_newton_schulz(a, q, steps=steps), sign_block(a, q, steps)) <= 1e-12


@pytest.mark.parametrize("c", CHANNELS)
def test_converges_to_scipys_solution(c: int) -> None:
    m = randn(c, c)
    a, q = m @ m.T / c + 0.5 * torch.eye(c, dtype=torch.float64), randn(c, c, seed=1)
    expected = torch.from_numpy(scipy.linalg.solve_continuous_lyapunov(a.numpy(), q.numpy()))
    assert relative_error(lyapunov_newton_schulz(a, q, steps=30), expected) <= 1e-12


def test_convergence_of_an_ill_conditioned_equation() -> None:
    """A with condition 3.7e3: its root is off by tens of percent at 5 steps and exact at 20."""
    roots = torch.logspace(0, -0.5 * torch.tensor(3.7e3).log10().item(), 16, dtype=torch.float64)
    a = spd(*roots.tolist())
    q = randn(16, 16, seed=1)
    expected = torch.from_numpy(scipy.linalg.solve_continuous_lyapunov(a.numpy(), q.numpy()))
    errors = [relative_error(lyapunov_newton_schulz(a, q, steps=steps), expected) for steps in (5, 10, 15, 20)]
    assert 0.2 < errors[0] < 1 and 1e-3 < errors[1] < errors[0]
    assert errors[2] < 1e-2 and errors[3] < 1e-10


def test_singular_matrices_get_half_between_range_and_null_space() -> None:
    """Between null directions the iterate grows by 1.5 with each step."""
    a, q = torch.diag(torch.tensor([2.0, 1.0, 0.0, 0.0], dtype=torch.float64)), torch.ones(4, 4, dtype=torch.float64)
    x = lyapunov_newton_schulz(a, q, steps=25)
    torch.testing.assert_close(x[:2, :2], 1 / (a.diagonal()[:2, None] + a.diagonal()[:2]))
    torch.testing.assert_close(x[:2, 2:], 0.5 / a.diagonal()[:2, None].expand(2, 2))
    torch.testing.assert_close(x[2:, 2:], torch.full((2, 2), 0.5 * 1.5**25 / 5**0.5, dtype=torch.float64))


def test_equivariance_and_scaling() -> None:
    a, q, u = spd(2.0, 1.0, 0.5), randn(3, 3, seed=1), rotation(3)
    x = lyapunov_newton_schulz(a, q)
    torch.testing.assert_close(lyapunov_newton_schulz(u @ a @ u.T, u @ q @ u.T), u @ x @ u.T)
    for scale in (1e-8, 1e8):
        torch.testing.assert_close(lyapunov_newton_schulz(scale * a, q) * scale, x)


def test_zero_gives_zero_with_finite_gradients() -> None:
    a, q = torch.zeros(2, 3, 3, requires_grad=True), torch.ones(2, 3, 3, requires_grad=True)
    x = lyapunov_newton_schulz(a, q)
    assert torch.equal(x, torch.zeros(2, 3, 3))
    assert all(g.isfinite().all() for g in torch.autograd.grad(x.sum(), (a, q)))


def test_derivatives_of_every_kind() -> None:
    a, q = spd(2.0, 1.0, 0.5).requires_grad_(), randn(3, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lyapunov_newton_schulz, (a, q), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lyapunov_newton_schulz, (a, q))


def test_leading_dimensions_broadcast() -> None:
    a, q = spd(2.0, 1.0, 0.5), randn(4, 3, 3, seed=1)
    torch.testing.assert_close(
        lyapunov_newton_schulz(a, q), torch.stack([lyapunov_newton_schulz(a, item) for item in q])
    )


def test_refusals_name_what_came() -> None:
    with refuses(ValueError, "same order", "(2, 2)", "(3, 3)"):
        lyapunov_newton_schulz(torch.ones(2, 2), torch.ones(3, 3))
    with refuses(ValueError, "`steps`", "positive", "0"):
        lyapunov_newton_schulz(torch.ones(2, 2), torch.ones(2, 2), steps=0)
