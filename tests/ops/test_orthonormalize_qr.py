"""covpool.ops.orthonormalize_qr: a matrix on the Stiefel manifold from any of full rank."""

import numpy as np
import pytest
import torch

from covpool.ops import orthonormalize_qr
from ops.oracles import assert_gradient, finite_difference, gradient, randn, refuses


@pytest.mark.parametrize("shape", [(1, 1), (5, 1), (6, 4), (5, 5), (3, 8, 2)])
def test_columns_are_orthonormal_and_span_the_same_space(shape: tuple[int, ...]) -> None:
    v = randn(*shape)
    q = orthonormalize_qr(v)
    torch.testing.assert_close(q.mT @ q, torch.eye(shape[-1], dtype=torch.float64).expand(*shape[:-2], -1, -1))
    r = q.mT @ v
    torch.testing.assert_close(q @ r, v)
    torch.testing.assert_close(r, r.triu())
    assert (r.diagonal(dim1=-2, dim2=-1) > 0).all()


def test_is_gram_schmidt() -> None:
    v = randn(6, 3).numpy()
    columns: list[np.ndarray] = []
    for column in v.T:
        rest = column - sum((q * (q @ column) for q in columns), np.zeros(6))
        columns.append(rest / np.linalg.norm(rest))
    np.testing.assert_allclose(orthonormalize_qr(torch.from_numpy(v)).numpy(), np.stack(columns, 1), atol=1e-13)


def test_orthonormal_columns_and_positive_scales_of_them_change_nothing() -> None:
    q = orthonormalize_qr(randn(6, 3))
    torch.testing.assert_close(orthonormalize_qr(q), q)
    torch.testing.assert_close(orthonormalize_qr(q * torch.tensor([0.1, 2.0, 30.0])), q)


def test_gradient() -> None:
    assert_gradient(orthonormalize_qr, randn(6, 4))
    assert_gradient(orthonormalize_qr, randn(4, 4))


def test_it_moves_along_the_manifold() -> None:
    """sym(Q^T dQ) = 0 in every direction, and the gradient has no part that only rescales."""
    v = randn(6, 4)
    q, dq = orthonormalize_qr(v), finite_difference(orthonormalize_qr, v, randn(6, 4, seed=1))
    torch.testing.assert_close(q.T @ dq, -(dq.T @ q), atol=1e-8, rtol=0)
    dv = gradient(orthonormalize_qr, v, randn(6, 4, seed=2))
    torch.testing.assert_close((v.T @ dv).triu(), torch.zeros(4, 4, dtype=torch.float64), atol=1e-12, rtol=0)


def test_autocast_does_not_reach_it() -> None:
    v, g = randn(6, 4, dtype=torch.float32), randn(6, 4, seed=1, dtype=torch.float32)
    expected = orthonormalize_qr(v), gradient(orthonormalize_qr, v, g)
    with torch.autocast("cpu", torch.bfloat16):
        found = orthonormalize_qr(v), gradient(orthonormalize_qr, v, g)
    assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1])
    assert found[0].dtype == torch.float32


def test_refusals() -> None:
    with refuses(ValueError, "`v`", "m >= k >= 1", "(2, 3)"):
        orthonormalize_qr(torch.ones(2, 3))
    with refuses(TypeError, "`v`", "int64"):
        orthonormalize_qr(torch.ones(3, 2, dtype=torch.long))
