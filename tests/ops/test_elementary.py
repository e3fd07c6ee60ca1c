"""covpool.ops.elementary: values and derivatives at zero, and norms without overflow."""

import numpy as np
import pytest
import torch

from covpool.ops.elementary import frobenius_norm, inner, one_if_zero, power_or_zero, reciprocal_or_zero, symmetrize
from ops.oracles import assert_gradient, randn


def test_symmetrize_is_the_projection_on_symmetric_matrices() -> None:
    a, b = randn(2, 4, 4), randn(2, 4, 4, seed=1)
    s = symmetrize(a)
    assert torch.equal(s, s.mT)
    assert torch.equal(symmetrize(s), s)
    torch.testing.assert_close(inner(symmetrize(a), b), inner(a, symmetrize(b)))
    assert torch.autograd.gradcheck(symmetrize, a.requires_grad_())


def test_inner_is_the_trace_of_the_product() -> None:
    a, b = randn(2, 3, 5), randn(2, 3, 5, seed=1)
    expected = np.einsum("bij,bij->b", a.numpy(), b.numpy())
    np.testing.assert_allclose(inner(a, b).numpy(), expected[:, None, None])


def test_frobenius_norm_is_numpys() -> None:
    a = randn(4, 3, 5)
    expected = np.linalg.norm(a.numpy(), axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(frobenius_norm(a).numpy(), expected, rtol=1e-14)
    assert_gradient(frobenius_norm, a)
    assert torch.autograd.gradgradcheck(frobenius_norm, a.requires_grad_())


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_frobenius_norm_neither_overflows_nor_underflows(scale: float) -> None:
    a = torch.full((3, 3), scale).requires_grad_()
    norm = frobenius_norm(a)
    torch.testing.assert_close(norm / scale, torch.full((1, 1), 3.0))
    (da,) = torch.autograd.grad(norm.sum(), a)
    torch.testing.assert_close(da, torch.full((3, 3), 1 / 3))


def test_frobenius_norm_of_zero_has_a_zero_derivative() -> None:
    a = torch.zeros(2, 3, 3, requires_grad=True)
    norm = frobenius_norm(a)
    (da,) = torch.autograd.grad(norm.sum(), a)
    assert torch.equal(norm, torch.zeros(2, 1, 1))
    assert torch.equal(da, torch.zeros(2, 3, 3))


T = torch.tensor([0.0, -0.0, 4.0, torch.nan], dtype=torch.float64)


def test_one_if_zero() -> None:
    torch.testing.assert_close(one_if_zero(T), torch.tensor([1.0, 1, 4, torch.nan]).double(), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_reciprocal_is_zero_below_the_normal_numbers(dtype: torch.dtype) -> None:
    tiny = torch.finfo(dtype).tiny
    t = torch.tensor([0.0, tiny / 2, -tiny / 2, tiny, -4.0, torch.inf, torch.nan], dtype=dtype)
    expected = torch.tensor([0.0, 0.0, 0.0, 1 / tiny, -0.25, 0.0, torch.nan], dtype=dtype)
    torch.testing.assert_close(reciprocal_or_zero(t), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("alpha", [-0.5, 0.5, 2.0])
def test_power_is_zero_at_zero(alpha: float) -> None:
    expected = torch.tensor([0.0, 0.0, 4**alpha, torch.nan], dtype=torch.float64)
    torch.testing.assert_close(power_or_zero(T, alpha), expected, equal_nan=True)


def test_derivatives_vanish_at_zero() -> None:
    for function, slope in ((reciprocal_or_zero, -1 / 16), (lambda t: power_or_zero(t, 0.5), 0.25)):
        t = torch.tensor([0.0, 4.0], dtype=torch.float64, requires_grad=True)
        (dt,) = torch.autograd.grad(function(t).sum(), t)
        assert dt.tolist() == [0, slope]
