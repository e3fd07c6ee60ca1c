"""covpool.ops.covariance: the definition, masks, weights, accuracy."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cases import CHANNELS, features
from covpool.ops import covariance
from ops import reference
from ops.oracles import assert_gradient, finite_difference, gradient, randn, refuses, relative_error

MASK = torch.tensor([[True, True, False, True, False, True], [False, True, True, False, False, True]])
WEIGHTS = torch.rand(2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.1


@pytest.mark.parametrize("c", CHANNELS)
@pytest.mark.parametrize("n", [1, 2, 30])
def test_equals_numpys_biased_covariance(n: int, c: int) -> None:
    x = features(2, n, c)
    expected = np.stack([np.cov(item.numpy().T, bias=True).reshape(c, c) for item in x])
    np.testing.assert_allclose(covariance(x), expected, atol=1e-14)


def test_shift_invariance() -> None:
    x, shift = features(2, 9, 4), randn(2, 1, 4, seed=1)
    torch.testing.assert_close(covariance(x + shift), covariance(x))
    dx = gradient(covariance, x, randn(2, 4, 4, seed=2))
    assert dx.sum(1).abs().max() <= 1e-14


def test_euler_identity() -> None:
    """Degree two: <dl/dX, X> = 2 <G, Sigma>."""
    x, g = features(2, 9, 4), randn(2, 4, 4, seed=1)
    torch.testing.assert_close((gradient(covariance, x, g) * x).sum(), 2 * (g * covariance(x)).sum())


def test_single_position_gives_zero_with_zero_gradient() -> None:
    x = features(2, 1, 4)
    assert torch.equal(covariance(x), torch.zeros(2, 4, 4).double())
    assert torch.equal(gradient(covariance, x, randn(2, 4, 4)), torch.zeros(2, 1, 4).double())


def test_two_opposite_points() -> None:
    v = randn(4)
    torch.testing.assert_close(covariance(torch.stack((v, -v))), torch.outer(v, v))


def test_backward_formula() -> None:
    """dl/dX = (G + G^T) (X - mean) / M, for G not symmetric."""
    x, g = features(2, 9, 4), randn(2, 4, 4, seed=1)
    expected = (x - x.mean(1, keepdim=True)) @ (g + g.mT) / 9
    torch.testing.assert_close(gradient(covariance, x, g), expected)


def test_result_is_exactly_symmetric() -> None:
    a = covariance(features(2, 50, 33, dtype=torch.float32), weights=torch.rand(2, 50))
    assert torch.equal(a, a.mT)


def test_second_moment() -> None:
    x = features(2, 9, 4)
    torch.testing.assert_close(covariance(x, centered=False), x.mT @ x / 9)
    assert_gradient(lambda x: covariance(x, centered=False), x)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 10**6))
def test_change_of_channels(n: int, c: int, seed: int) -> None:
    """cov(x T) = T^T cov(x) T for any T."""
    x, t = randn(n, c, seed=seed), randn(c, c, seed=seed + 1)
    torch.testing.assert_close(covariance(x @ t), t.T @ covariance(x) @ t, rtol=1e-9, atol=1e-12)


# --- masks and weights ----------------------------------------------------------------------------


@pytest.mark.parametrize("centered", [True, False])
def test_mask_equals_slicing(centered: bool) -> None:
    x, g = features(2, 6, 3), randn(2, 3, 3, seed=1)
    z = covariance(x, mask=MASK, centered=centered)
    dx = gradient(lambda x: covariance(x, mask=MASK, centered=centered), x, g)
    for i in range(2):
        kept = x[i, MASK[i]]
        torch.testing.assert_close(z[i], covariance(kept, centered=centered))
        expected = gradient(lambda x: covariance(x, centered=centered), kept, g[i])
        torch.testing.assert_close(dx[i, MASK[i]], expected)
        assert torch.equal(dx[i, ~MASK[i]], torch.zeros_like(x[i, ~MASK[i]]))


def test_faults_at_masked_positions_have_no_influence() -> None:
    x = features(2, 6, 3)
    for fault in (torch.nan, torch.inf):
        poisoned = torch.where(MASK[..., None], x, fault)
        assert torch.equal(covariance(poisoned, mask=MASK), covariance(x, mask=MASK))
        dx = gradient(lambda x: covariance(x, mask=MASK), poisoned, randn(2, 3, 3))
        assert torch.equal(dx, gradient(lambda x: covariance(x, mask=MASK), x, randn(2, 3, 3)))


def test_empty_mask_gives_zeros() -> None:
    x, mask = features(2, 6, 3), MASK.clone()
    mask[1] = False
    z = covariance(x, mask=mask)
    assert torch.equal(z[1], torch.zeros(3, 3).double())
    dx = gradient(lambda x: covariance(x, mask=mask), x, randn(2, 3, 3))
    assert torch.equal(dx[1], torch.zeros(6, 3).double())


@pytest.mark.parametrize("centered", [True, False])
def test_weights_equal_the_reference(centered: bool) -> None:
    x = features(2, 6, 3)
    expected = torch.stack([reference.covariance(x[i], WEIGHTS[i], centered) for i in range(2)])
    torch.testing.assert_close(covariance(x, weights=WEIGHTS, centered=centered), expected)
    torch.testing.assert_close(covariance(x, weights=7 * WEIGHTS, centered=centered), expected)


def test_whole_weights_equal_repeated_positions() -> None:
    x, counts = features(1, 4, 3), torch.tensor([1, 3, 0, 2])
    torch.testing.assert_close(covariance(x, weights=counts[None].double()), covariance(x[:, [0, 1, 1, 1, 3, 3]]))


def test_mask_and_weights_together() -> None:
    x = features(2, 6, 3)
    expected = torch.stack([reference.covariance(x[i, MASK[i]], WEIGHTS[i, MASK[i]]) for i in range(2)])
    torch.testing.assert_close(covariance(x, mask=MASK, weights=WEIGHTS), expected)


@pytest.mark.parametrize("mask", [None, MASK])
def test_gradient_in_the_weights(mask: Tensor | None) -> None:
    x = features(2, 6, 3)
    assert_gradient(lambda w: covariance(x, mask=mask, weights=w), WEIGHTS)
    assert_gradient(lambda x: covariance(x, mask=mask, weights=WEIGHTS), x)
    _, dz = torch.func.jvp(lambda w: covariance(x, mask=mask, weights=w), (WEIGHTS,), (WEIGHTS.cos(),))
    expected = finite_difference(lambda w: covariance(x, mask=mask, weights=w), WEIGHTS, WEIGHTS.cos())
    assert relative_error(dz, expected) <= 1e-7


# --- accuracy, memory, transforms -----------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_float32_accuracy_on_features_of_mean_ten(weighted: bool) -> None:
    x = features(4, 196, 64, dtype=torch.float32) + 10
    w = torch.rand(4, 196, generator=torch.Generator().manual_seed(0)) if weighted else None
    z = covariance(x, weights=w)
    for i in range(4):
        aweights = None if w is None else w[i].double().numpy()
        truth = torch.from_numpy(np.cov(x[i].double().numpy().T, bias=True, aweights=aweights))
        assert relative_error(z[i], truth) <= 1e-6


def test_no_matrix_of_positions_is_formed() -> None:
    """A matrix of 200 000 x 200 000 positions would take 320 GB."""
    x = randn(200_000, 2)
    for mask in (None, torch.ones(200_000, dtype=torch.bool)):
        np.testing.assert_allclose(covariance(x, mask=mask), np.cov(x.numpy().T, bias=True), atol=1e-12)


def test_derivatives_of_every_kind() -> None:
    x, w = features(2, 4, 3).requires_grad_(), WEIGHTS[:, :4].clone().requires_grad_()
    assert torch.autograd.gradcheck(covariance, x, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(covariance, x, check_fwd_over_rev=True)
    assert torch.autograd.gradgradcheck(lambda x, w: covariance(x, weights=w), (x, w))


def test_hessian_of_the_total_variance() -> None:
    """tr Sigma is quadratic in x with the centring matrix: H = 2 J (x) I."""
    x = features(1, 4, 2)[0]
    hessian = torch.func.hessian(lambda x: covariance(x).trace())(x)
    j = (torch.eye(4) - 1 / 4) / 4
    torch.testing.assert_close(hessian, 2 * torch.einsum("ij,kl->ikjl", j, torch.eye(2)).double())


def test_refusals_name_what_came() -> None:
    with refuses(ValueError, "`x`", "(..., n, c)", "(3,)"):
        covariance(torch.ones(3))
    with refuses(ValueError, "`x`", "n, c >= 1", "(2, 0, 3)"):
        covariance(torch.ones(2, 0, 3))
    with refuses(TypeError, "`x`", "int64", ".float()"):
        covariance(torch.ones(2, 3, dtype=torch.long))
    with refuses(TypeError, "`x`", "ndarray"):
        covariance(np.ones((2, 3)))  # type: ignore[arg-type]
    with refuses(ValueError, "`mask`", "(2, 6)", "(2, 5)"):
        covariance(features(2, 6, 3), mask=MASK[:, :5])
    with refuses(TypeError, "`mask`", "boolean", "float64"):
        covariance(features(2, 6, 3), mask=WEIGHTS)  # type: ignore[arg-type]


@pytest.mark.parametrize("centered", [True, False])
def test_the_kernels_have_every_derivative_in_features_and_weights(centered: bool) -> None:
    """Against torch's operations in float64, with two leading dimensions, and n = 5 apart from c = 4."""
    pytest.importorskip("triton")
    x, w = features(6, 5, 4).unflatten(0, (2, 3)), features(6, 5, 1, seed=1).unflatten(0, (2, 3))[..., 0].abs() + 0.1
    directions = randn(2, 3, 5, 4, seed=2), randn(2, 3, 5, seed=3)

    def results(backend: Any, dtype: torch.dtype) -> list[Tensor]:
        device = "cuda" if backend == "triton" and torch.cuda.is_available() else "cpu"
        inputs = tuple(t.to(device, dtype) for t in (x, w))
        moved = tuple(t.to(device, dtype) for t in directions)
        f = lambda x, w: covariance(x, weights=w, centered=centered, backend=backend)  # noqa: E731
        g = randn(2, 3, 4, 4, seed=4).to(device, dtype)
        z, dz = torch.func.jvp(f, inputs, moved)
        leaves = [t.clone().requires_grad_() for t in inputs]
        plain = torch.autograd.grad(f(*leaves), leaves, g)
        first = torch.autograd.grad(f(*leaves), leaves, g, create_graph=True)
        second = torch.autograd.grad(sum((d * m).sum() for d, m in zip(first, moved, strict=True)), leaves)
        return [t.detach().cpu() for t in (z, dz, *plain, *first, *second)]

    for found, expected in zip(results("triton", torch.float32), results("torch", torch.float64), strict=True):
        assert relative_error(found, expected) <= 1e-5
