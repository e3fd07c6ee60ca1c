"""covpool.ops.symmetric."""

import numpy as np
import pytest
import torch

from covpool.ops.symmetric import frobenius_norm, inner, symmetrize
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
