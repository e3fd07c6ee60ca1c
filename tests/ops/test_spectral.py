"""covpool.ops._spectral: functions of a matrix through a given decomposition."""

import numpy as np
import pytest
import torch
from torch import Tensor

from cases import hard_matrices, spd
from covpool.ops._spectral import SpectralFunction, SpectralKind, compose, eps_of, rotate
from covpool.ops.elementary import symmetrize
from ops import reference
from ops.oracles import assert_gradient, finite_difference, randn, refuses, relative_error

ALPHA = torch.tensor(0.7, dtype=torch.float64)


def apply(a: Tensor, kind: SpectralKind, alpha: Tensor = ALPHA) -> Tensor:
    eigenvalues, u = torch.linalg.eigh(symmetrize(a.detach()))
    z: Tensor = SpectralFunction.call(symmetrize(a), None if kind == "log" else alpha, eigenvalues, u, kind)
    return z


def test_compose_and_rotate() -> None:
    a = hard_matrices()["distinct"]
    eigenvalues, u = torch.linalg.eigh(a)
    torch.testing.assert_close(compose(u, eigenvalues), a)
    torch.testing.assert_close(rotate(u, a), torch.diag(eigenvalues))
    h = randn(6, 6)
    torch.testing.assert_close(rotate(u, h), u.T @ ((h + h.T) / 2) @ u)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_eps_of_is_the_spacing_of_numbers(dtype: type) -> None:
    values = np.array([1e-30, 0.7, 1.0, 1.5, 2.0, 1e8, -3.0], dtype=dtype)
    np.testing.assert_array_equal(eps_of(torch.from_numpy(values)), np.spacing(np.abs(values)))


def test_eps_of_is_matlabs_in_single() -> None:
    """The spacing of float32 at l is 2^(floor(log2 l) - 23)."""
    value = torch.tensor(10.0)
    assert float(eps_of(value)) == 2.0 ** (3 - 23)


@pytest.mark.parametrize("name", hard_matrices())
@pytest.mark.parametrize("kind", ["power", "log"])
def test_value_and_gradient_on_hard_spectra(name: str, kind: SpectralKind) -> None:
    a = hard_matrices()[name]
    f = np.log if kind == "log" else (lambda value: value**0.7)
    assert relative_error(apply(a, kind), reference.spectral(a, f)) <= 1e-12
    smallest = float(torch.linalg.eigvalsh(a)[0])
    if smallest > 1e-3:  # below, finite differences are too inaccurate
        assert_gradient(lambda a: apply(a, kind), a, tol=1e-5)


@pytest.mark.parametrize("kind", ["power", "log"])
def test_forward_derivative_is_its_own_adjoint(kind: SpectralKind) -> None:
    a, h = hard_matrices()["repeated"], symmetrize(randn(6, 6))
    _, dz = torch.func.jvp(lambda a: apply(a, kind), (a,), (h,))
    _, vjp = torch.func.vjp(lambda a: apply(a, kind), a)
    torch.testing.assert_close(dz, vjp(h)[0])
    assert relative_error(dz, finite_difference(lambda a: apply(a, kind), a, h)) <= 1e-7


def test_derivative_in_alpha() -> None:
    a = torch.diag(torch.tensor([0.0, 0.5, 2.0], dtype=torch.float64))
    assert_gradient(lambda alpha: apply(a, "power", alpha), ALPHA)
    _, dz = torch.func.jvp(lambda alpha: apply(a, "power", alpha), (ALPHA,), (torch.ones_like(ALPHA),))
    torch.testing.assert_close(dz.diagonal(), torch.tensor([0.0, 0.5**0.7 * np.log(0.5), 2**0.7 * np.log(2)]).double())


def test_released_kind_drops_range_null_entries_only() -> None:
    a = torch.diag(torch.tensor([0.0, 1.0, 4.0], dtype=torch.float64)).requires_grad_()
    g = torch.ones(3, 3, dtype=torch.float64)
    (exact,) = torch.autograd.grad(apply(a, "power"), a, g)
    (released,) = torch.autograd.grad(apply(a, "power_released"), a, g)
    expected = exact.clone()
    expected[0] = expected[:, 0] = 0
    torch.testing.assert_close(released, expected)
    assert (exact[0, 1:] > 0.1).all()


def test_first_derivative_with_create_graph_is_the_same() -> None:
    a = spd(3.0, 2.0, 1.0).requires_grad_()
    (kept,) = torch.autograd.grad(apply(a, "power").sum(), a, create_graph=True)
    (plain,) = torch.autograd.grad(apply(a, "power").sum(), a)
    assert torch.equal(kept, plain)


@pytest.mark.parametrize("kind", ["power", "log"])
def test_second_derivative_of_matrices_in_several_batch_dimensions(kind: SpectralKind) -> None:
    a = torch.stack([spd(1, 2, 3, 4, 7, seed=seed) for seed in range(6)])
    g, h = randn(6, 5, 5, seed=7), randn(6, 5, 5, seed=8)

    def second(*shape: int) -> Tensor:
        x = a.reshape(*shape, 5, 5).clone().requires_grad_()
        (first,) = torch.autograd.grad(apply(x, kind), x, g.view_as(x), create_graph=True)
        return torch.autograd.grad(first, x, h.view_as(x))[0].reshape(6, 5, 5)

    torch.testing.assert_close(second(2, 1, 3), second(6))
    torch.testing.assert_close(second(2, 1, 3)[0], _second_alone(a[0], g[0], h[0], kind))


def _second_alone(a: Tensor, g: Tensor, h: Tensor, kind: SpectralKind) -> Tensor:
    x = a.clone().requires_grad_()
    (first,) = torch.autograd.grad(apply(x, kind), x, g, create_graph=True)
    return torch.autograd.grad(first, x, h)[0]


def test_the_gradient_in_alpha_is_linear_in_the_upstream_gradient() -> None:
    """Forward mode through the backward pass moves the upstream gradient alone: no second derivative is asked for."""
    a, g, dg = spd(3.0, 2.0, 1.0), randn(3, 3), randn(3, 3, seed=1)

    def in_alpha(g: Tensor) -> Tensor:
        return torch.func.vjp(lambda alpha: apply(a, "power", alpha), ALPHA)[1](g)[0]

    _, slope = torch.func.jvp(in_alpha, (g,), (dg,))
    eigenvalues, u = torch.linalg.eigh(a)
    expected = (dg * ((u * (eigenvalues**ALPHA * eigenvalues.log())) @ u.T)).sum()
    torch.testing.assert_close(slope, expected)


def test_a_second_derivative_in_matrix_and_alpha_is_refused() -> None:
    a, alpha = spd(3.0, 2.0, 1.0).requires_grad_(), ALPHA.clone().requires_grad_()
    (da,) = torch.autograd.grad(apply(a, "power", alpha).sum(), a, create_graph=True)
    with refuses(RuntimeError, "second derivatives in the exponent"):
        torch.autograd.grad(da.sum(), (a, alpha))
