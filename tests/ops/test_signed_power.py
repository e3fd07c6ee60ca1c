"""covpool.ops.signed_power: the value and the four published slopes at zero."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from covpool.ops import elementwise_power_normalize, signed_power
from covpool.ops.signed_power import (
    GRADIENT_MODES,
    LONGEST_VECTOR,
    GradientMode,
    _kernels_serve,
    _power_normalized,
    _PowerNormalized,
)
from ops.oracles import assert_gradient, gradient, randn, refuses, relative_error

Z = torch.tensor([4.0, 0.25, 0.0, -0.01, -9.0, 1e-12], dtype=torch.float64)
EXACT_VALUE: tuple[GradientMode, ...] = ("bcnn", "cbp")  # the other two shift the value as well

every_mode = pytest.mark.parametrize("mode", GRADIENT_MODES)


def slope(z: Tensor, mode: GradientMode) -> Tensor:
    return gradient(lambda z: signed_power(z, gradient=mode), z, torch.ones_like(z))


@pytest.mark.parametrize("mode", EXACT_VALUE)
@pytest.mark.parametrize("rho", [0.3, 0.5, 0.75, 1.0])
def test_value(mode: GradientMode, rho: float) -> None:
    expected = np.sign(Z.numpy()) * np.abs(Z.numpy()) ** rho
    np.testing.assert_allclose(signed_power(Z, rho, gradient=mode), expected, rtol=1e-14)


def test_published_values_that_shift_the_argument() -> None:
    z = Z.numpy()
    shifted = np.sqrt(np.maximum(z, 0) + 1e-5) - np.sqrt(np.maximum(-z, 0) + 1e-5)
    np.testing.assert_allclose(signed_power(Z, gradient="bcnn_torch"), shifted, atol=1e-15)
    np.testing.assert_allclose(signed_power(Z, gradient="fast_mpn"), np.sign(z) * np.sqrt(np.abs(z) + 1e-8), atol=1e-15)


def test_published_slopes() -> None:
    """The published formulas of the slopes, at zero, small and large arguments."""
    z = np.abs(Z.numpy())
    np.testing.assert_allclose(slope(Z, "bcnn"), 0.5 / np.sqrt(z + 1e-8), rtol=1e-12)
    np.testing.assert_allclose(slope(Z, "cbp"), 0.5 / (np.sqrt(z) + 0.1), rtol=1e-12)
    np.testing.assert_allclose(slope(Z, "bcnn_torch"), np.where(z == 0, 0, 0.5 / np.sqrt(z + 1e-5)), rtol=1e-12)
    np.testing.assert_allclose(slope(Z, "fast_mpn"), np.where(z == 0, 0, 0.5 / np.sqrt(z + 1e-8)), rtol=1e-12)


def test_bound_of_the_umass_slope() -> None:
    """The slope is at most 158."""
    assert slope(torch.linspace(-1e-6, 1e-6, 101, dtype=torch.float64), "bcnn_torch").max() <= 158.2


@every_mode
def test_finite_derivatives_at_zero_of_both_orders(mode: GradientMode) -> None:
    z = torch.zeros(4, requires_grad=True)
    (dz,) = torch.autograd.grad(signed_power(z, gradient=mode).sum(), z, create_graph=True)
    assert dz.isfinite().all()
    if dz.requires_grad:
        (ddz,) = torch.autograd.grad(dz.sum(), z)
        assert ddz.isfinite().all()


@pytest.mark.parametrize("mode", ["bcnn", "bcnn_torch", "fast_mpn"])
def test_gradient_away_from_zero(mode: GradientMode) -> None:
    """All modes but the damped one give the derivative of the value, except close to zero."""
    z = torch.tensor([4.0, 0.5, -0.3, -9.0], dtype=torch.float64)
    assert_gradient(lambda z: signed_power(z, gradient=mode), z, tol=1e-6)


def test_damped_slope_is_not_the_derivative() -> None:
    z = torch.tensor([0.04], dtype=torch.float64)
    assert float(slope(z, "cbp")) == pytest.approx(0.5 / 0.3)
    assert float(slope(z, "bcnn")) == pytest.approx(0.5 / 0.2, rel=1e-6)


def test_power_one_is_the_identity() -> None:
    assert torch.equal(signed_power(Z, 1.0), Z)
    torch.testing.assert_close(gradient(lambda z: signed_power(z, 1.0), Z, Z), Z)


@every_mode
def test_functional_transforms_agree(mode: GradientMode) -> None:
    z, dz = randn(3, 5), randn(3, 5, seed=1)
    f = lambda z: signed_power(z, 0.6, gradient=mode)  # noqa: E731
    expected = gradient(f, z, torch.ones_like(z))
    torch.testing.assert_close(torch.vmap(torch.func.grad(lambda z: f(z).sum()))(z), expected)
    torch.testing.assert_close(torch.func.jvp(f, (z,), (dz,))[1], expected * dz)


@every_mode
def test_compiles(mode: GradientMode) -> None:
    torch.compiler.reset()
    z = randn(3, 5)
    f = lambda z: elementwise_power_normalize(z, gradient=mode)  # noqa: E731
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(z), f(z))
    torch.testing.assert_close(gradient(compiled, z, z), gradient(f, z, z))


# --- E-PN -----------------------------------------------------------------------------------------


def test_unit_length() -> None:
    torch.testing.assert_close(elementwise_power_normalize(randn(4, 9)).norm(dim=-1), torch.ones(4).double())


@settings(max_examples=15, deadline=None)
@given(st.floats(1e-6, 1e6), st.integers(0, 10**6))
def test_scale_invariance_and_odd_symmetry(scale: float, seed: int) -> None:
    z = randn(7, seed=seed)
    y = elementwise_power_normalize(z)
    torch.testing.assert_close(elementwise_power_normalize(scale * z), y)
    assert torch.equal(elementwise_power_normalize(-z), -y)


def test_unit_vectors_stay() -> None:
    assert torch.equal(elementwise_power_normalize(torch.eye(4)), torch.eye(4))


def test_backward_of_the_pair() -> None:
    """g_z = |z|^(-1/2) / 2 o (g - <g, u> u) / |y|."""
    z, g = randn(6), randn(6, seed=1)
    y = z.sign() * z.abs().sqrt()
    u = y / y.norm()
    expected = 0.5 * (z.abs() + 1e-8) ** -0.5 * (g - (g @ u) * u) / y.norm()
    assert relative_error(gradient(elementwise_power_normalize, z, g), expected) <= 1e-14


@every_mode
def test_zero_vector_stays_zero_with_a_finite_gradient(mode: GradientMode) -> None:
    z = torch.zeros(2, 5)
    f = lambda z: elementwise_power_normalize(z, gradient=mode)  # noqa: E731
    assert torch.equal(f(z), z)
    assert gradient(f, z, torch.ones_like(z)).isfinite().all()


def test_refusals_name_what_came() -> None:
    with refuses(ValueError, "`rho`", "(0, 1]", "1.5"):
        signed_power(Z, 1.5)
    with refuses(ValueError, "`rho`", "0"):
        elementwise_power_normalize(Z, rho=0)
    with refuses(ValueError, "`gradient`", "'bcnn'", "'bccn'", "did you mean 'bcnn'"):
        signed_power(Z, gradient="bccn")  # type: ignore[arg-type]
    with refuses(TypeError, "`z`", "int64"):
        signed_power(torch.tensor([1]))
    with refuses(TypeError, "`z`", "float"):
        signed_power(1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", EXACT_VALUE)
@pytest.mark.parametrize("scale", [1.0, 1e-9])
def test_tangent_of_the_kernels_function(mode: GradientMode, scale: float) -> None:
    z, dz, eps = scale * randn(3, 5), randn(3, 5, seed=1), 1e-3
    context = SimpleNamespace(saved_tensors=(z, None), options=(mode, eps))
    _, expected = torch.func.jvp(lambda z: _power_normalized(z, 0.5, mode, eps), (z,), (dz,))
    torch.testing.assert_close(_PowerNormalized.tangent(context, dz), expected)


@pytest.mark.parametrize("mode", EXACT_VALUE)
def test_second_derivative_of_the_kernels_function(mode: GradientMode) -> None:
    """Given the value of the forward kernels, it is that of torch's operations."""
    g, h, eps = randn(3, 5, seed=1), randn(3, 5, seed=2), 1e-12

    def second(by_kernels: bool) -> Tensor:
        z = randn(3, 5).requires_grad_()
        y = _power_normalized(z, 0.5, mode, eps)
        y = _PowerNormalized.call(z, y.detach(), y.new_empty(3), mode, eps) if by_kernels else y
        (dz,) = torch.autograd.grad(y, z, g, create_graph=True)
        return torch.autograd.grad(dz, z, h)[0]

    torch.testing.assert_close(second(True), second(False))


def test_kernels_serve_vectors_that_fit_into_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnGpu(Tensor):
        is_cuda = True

    for name in ("is_eager", "largest_tile"):
        monkeypatch.setitem(_kernels_serve.__globals__, name, lambda _: 128)
    served = {size: _kernels_serve(torch.empty(1, size, device="meta").as_subclass(OnGpu)) for size in (5, 2**28)}
    assert served == {5: True, 2**28: False} and LONGEST_VECTOR < 2**28
    assert not _kernels_serve(torch.ones(1, 5))
