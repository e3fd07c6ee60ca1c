"""covpool.ops.powm_power_iteration: against the definition by an exact decomposition, where it has converged."""

import numpy as np
import pytest
import torch
from torch import Tensor

from covpool.ops import powm_power_iteration, powm_svd
from ops.oracles import randn, refuses, relative_error, rotation


def with_singular_values(*s: float) -> Tensor:
    return rotation(len(s), 1) @ torch.diag(torch.tensor(s, dtype=torch.float64)) @ rotation(len(s), 2)


def exact(a: Tensor, alpha: float, rank: int, eps: float = 1e-5) -> Tensor:
    """The first singular values to the power, the others divided by the factor of the last of them."""
    u, s, vh = np.linalg.svd(a.numpy())
    raised = np.where(np.arange(len(s)) < rank, s**alpha, s / (s[rank - 1] ** (1 - alpha) + eps))
    return torch.from_numpy(u * raised @ vh)


@pytest.mark.parametrize("alpha", [0.3, 0.5, 1.0])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_converged_it_is_its_definition(rank: int, alpha: float) -> None:
    a = with_singular_values(8.0, 4.0, 2.0, 1.0)
    z = powm_power_iteration(a, randn(4, seed=3), alpha=alpha, rank=rank, iterations=60)
    assert relative_error(z, exact(a, alpha, rank)) <= 1e-10


@pytest.mark.parametrize(("rank", "iterations"), [(1, 1), (1, 2), (2, 2), (2, 3)])
def test_before_convergence_it_is_the_published_recursion(rank: int, iterations: int) -> None:
    a, start = randn(3, 5).numpy(), randn(5, seed=1).numpy()
    left, total = a, np.zeros_like(a)
    for _ in range(rank):
        v = start
        for _ in range(iterations):
            u = left @ v / np.linalg.norm(left @ v)
            v = left.T @ u / np.linalg.norm(left.T @ u)
        s = u @ left @ v
        total = total + s**0.5 * np.outer(u, v)
        left = left - s * np.outer(u, v)
    expected = torch.from_numpy(total + left / (s**0.5 + 1e-5))
    z = powm_power_iteration(torch.from_numpy(a), torch.from_numpy(start), rank=rank, iterations=iterations)
    assert relative_error(z, expected) <= 1e-12


def test_all_singular_values_by_iteration_equal_the_decomposition() -> None:
    a = with_singular_values(8.0, 4.0, 2.0, 1.0)
    z = powm_power_iteration(a, randn(4, seed=3), rank=4, iterations=80)
    assert relative_error(z, powm_svd(a)) <= 1e-6


@pytest.mark.parametrize(("rank", "iterations"), [(1, 1), (2, 2)])
def test_gradcheck_in_the_matrix_and_the_start(rank: int, iterations: int) -> None:
    def f(a: Tensor, start: Tensor) -> Tensor:
        return powm_power_iteration(a, start, rank=rank, iterations=iterations)

    arguments = randn(2, 3, 4).requires_grad_(), randn(4, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(f, arguments, check_forward_ad=True)


@pytest.mark.parametrize("scale", [0.0, 1e-16, 1e16])
def test_any_scale_is_finite_with_finite_gradients(scale: float) -> None:
    a = (scale * randn(2, 3, 3, dtype=torch.float32)).requires_grad_()
    start = torch.ones(3, requires_grad=True)
    z = powm_power_iteration(a, start, rank=2, iterations=2)
    gradients = torch.autograd.grad(z.sum(), (a, start))
    assert z.isfinite().all() and all(g.isfinite().all() for g in gradients)
    assert scale or not z.any()


def test_a_start_in_the_null_space_is_finite() -> None:
    a = torch.tensor([[1.0, 0.0], [0.0, 0.0]], requires_grad=True)
    z = powm_power_iteration(a, torch.tensor([0.0, 1.0]))
    (da,) = torch.autograd.grad(z.sum(), a)
    assert z.isfinite().all() and da.isfinite().all()


def test_empty_batch() -> None:
    assert powm_power_iteration(torch.zeros(0, 3, 4), torch.ones(4)).shape == (0, 3, 4)


def test_refusals_name_what_came() -> None:
    with refuses(ValueError, "`start` (n,)", "(2, 3)", "(2,)"):
        powm_power_iteration(torch.ones(2, 3), torch.ones(2))
    with refuses(ValueError, "`alpha`", "(0, 1]", "1.5"):
        powm_power_iteration(torch.ones(2, 2), torch.ones(2), alpha=1.5)
    with refuses(ValueError, "`rank` = 2", "`iterations` >= 2"):
        powm_power_iteration(torch.ones(2, 2), torch.ones(2), rank=2)
    with refuses(ValueError, "`rank`", "0"):
        powm_power_iteration(torch.ones(2, 2), torch.ones(2), rank=0)
