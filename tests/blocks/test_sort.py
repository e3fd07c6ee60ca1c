"""The second-order response transform against its formula, in float64."""

import copy

import pytest
import torch
from torch import Tensor

from cases import features
from covpool.blocks import SecondOrderResponse, second_order_response


def term_by_term(a: Tensor, b: Tensor, tau: float) -> Tensor:
    pairs = zip(a.flatten().tolist(), b.flatten().tolist(), strict=True)
    values = [x + y + (max(x, 0.0) * max(y, 0.0) + tau) ** 0.5 for x, y in pairs]
    return torch.tensor(values, dtype=torch.float64).reshape(a.shape)


def test_the_formula() -> None:
    a, b = features(2, 5, 7), features(2, 5, 7, seed=1)
    for tau in (0.01, 0.5):
        torch.testing.assert_close(second_order_response(a, b, tau=tau), term_by_term(a, b, tau))


def test_where_a_branch_is_not_positive() -> None:
    a, b = features(1, 40, 1), features(1, 40, 1, seed=1)
    torch.testing.assert_close(second_order_response(a, -b.abs()), a - b.abs() + 0.1)
    torch.testing.assert_close(second_order_response(-a.abs(), b), b - a.abs() + 0.1)
    zero = torch.zeros(3, dtype=torch.float64)
    torch.testing.assert_close(second_order_response(zero, zero), zero + 0.1)


def test_equal_positive_branches() -> None:
    a = features(1, 40, 1).abs()
    torch.testing.assert_close(second_order_response(a, a), 2 * a + (a * a + 0.01).sqrt())


def test_the_variant_without_a_root() -> None:
    a, b = features(2, 5, 7), features(2, 5, 7, seed=1)
    expected = a + b + torch.where((a > 0) & (b > 0), a * b, 0)
    torch.testing.assert_close(second_order_response(a, b, root=False), expected)


def test_the_slope() -> None:
    a, b = features(2, 5, 7).requires_grad_(), features(2, 5, 7, seed=1)
    (found,) = torch.autograd.grad(second_order_response(a, b).sum(), a)
    x = a.detach()
    root = (x.clamp(min=0) * b.clamp(min=0) + 0.01).sqrt()
    torch.testing.assert_close(found, 1 + b.clamp(min=0) * (x > 0) / (2 * root))


@pytest.mark.parametrize("root", [True, False])
def test_gradcheck(root: bool) -> None:
    a, b = features(1, 3, 4).requires_grad_(), features(1, 3, 4, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: second_order_response(x, y, root=root), (a, b))
    assert torch.autograd.gradgradcheck(lambda x, y: second_order_response(x, y, root=root), (a, b))


@pytest.mark.parametrize("scale", [0.0, 1e-8, 1e8])
def test_finite_at_every_scale(scale: float) -> None:
    a = (features(2, 5, 7, dtype=torch.float32) * scale).requires_grad_()
    y = second_order_response(a, a)
    (slope,) = torch.autograd.grad(y.sum(), a)
    assert y.isfinite().all() and slope.isfinite().all()
    torch.testing.assert_close(y.double(), term_by_term(a, a, 0.01))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_does_not_overflow_under_the_root(dtype: torch.dtype) -> None:
    a = torch.tensor([300.0, 2e4], dtype=dtype)
    y = second_order_response(a, a)
    assert y.dtype == dtype
    torch.testing.assert_close(y.double(), term_by_term(a, a, 0.01), rtol=1e-2, atol=0)


def test_module_and_empty_batch() -> None:
    module = copy.deepcopy(SecondOrderResponse(tau=0.25, root=True))
    a, b = features(2, 5, 7), features(2, 5, 7, seed=1)
    torch.testing.assert_close(module(a, b), term_by_term(a, b, 0.25))
    torch.testing.assert_close(SecondOrderResponse(root=False)(a, b), second_order_response(a, b, root=False))
    assert not module.state_dict()
    assert module(a[:0], b[:0]).shape == (0, 5, 7)


def test_wrong_use() -> None:
    x = torch.ones(2)
    for tau in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="`tau` must be positive"):
            second_order_response(x, x, tau=tau)
    with pytest.raises(ValueError, match="`tau` must be positive"):
        SecondOrderResponse(tau=0)
    with pytest.raises(TypeError, match="floating point"):
        second_order_response(x, torch.ones(2, dtype=torch.int64))
