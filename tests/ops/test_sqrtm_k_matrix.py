"""covpool.ops.sqrtm_k_matrix: the derivative through eigenvectors, where it is exact and where it is not."""

import torch
from torch import Tensor

from cases import features, hard_matrices, spd
from covpool.ops import covariance, powm_eigh, sqrtm_k_matrix
from ops import reference
from ops.oracles import assert_gradient, gradient, randn, refuses, relative_error

DISTINCT = spd(3.0, 1.4, 0.8, 0.3, 0.1)


def test_value_is_the_root() -> None:
    assert relative_error(sqrtm_k_matrix(DISTINCT), reference.power(DISTINCT, 0.5)) <= 1e-13


def test_gradient_is_torchs_own_where_eigenvalues_are_distinct() -> None:
    def through_torch(a: Tensor) -> Tensor:
        eigenvalues, u = torch.linalg.eigh((a + a.T) / 2)
        return u @ torch.diag(eigenvalues.sqrt()) @ u.T

    g = randn(5, 5)
    assert relative_error(gradient(sqrtm_k_matrix, DISTINCT, g), gradient(through_torch, DISTINCT, g)) <= 1e-12
    assert_gradient(sqrtm_k_matrix, DISTINCT)


def test_gradient_of_a_rank_deficient_moment_is_exact() -> None:
    """The null eigenvalues are equal, but what K drops between them does not reach the features."""
    assert_gradient(lambda x: sqrtm_k_matrix(covariance(x, centered=False)), features(1, 4, 7)[0])


def test_equal_eigenvalues_lose_the_block_between_them() -> None:
    a, g = hard_matrices()["repeated"], torch.ones(6, 6, dtype=torch.float64)  # 3, 3, 2, 2, 2, 0.5
    lost, exact = gradient(sqrtm_k_matrix, a, g), gradient(lambda a: powm_eigh(a, 0.5), a, g)
    equal = (a.diagonal()[:, None] == a.diagonal()) & ~torch.eye(6, dtype=torch.bool)
    assert (lost[equal] == 0).all() and (exact[equal] > 0.2).all()
    torch.testing.assert_close(lost[~equal], exact[~equal])


def test_nearly_equal_eigenvalues_lose_digits_and_stay_finite() -> None:
    a = hard_matrices()["nearly_repeated"]
    g = randn(5, 5)
    da = gradient(sqrtm_k_matrix, a, g)
    assert da.isfinite().all()
    assert relative_error(da, gradient(lambda a: powm_eigh(a, 0.5), a, g)) > 1e-6


def test_zero_gives_zero() -> None:
    a = torch.zeros(2, 3, 3)
    assert torch.equal(sqrtm_k_matrix(a), a)
    assert torch.equal(gradient(sqrtm_k_matrix, a, torch.ones(2, 3, 3)), a)


def test_gradcheck_forward_and_batched() -> None:
    a = torch.stack([DISTINCT[:3, :3], DISTINCT[1:4, 1:4]]).requires_grad_()
    assert torch.autograd.gradcheck(sqrtm_k_matrix, a, check_forward_ad=True, check_batched_grad=True)


def test_refusals() -> None:
    with refuses(ValueError, "`a`", "(2, 3)"):
        sqrtm_k_matrix(torch.ones(2, 3))
    a = DISTINCT.clone().requires_grad_()
    (da,) = torch.autograd.grad(sqrtm_k_matrix(a).sum(), a, create_graph=True)
    with refuses(RuntimeError, "second derivatives"):
        da.sum().backward()
