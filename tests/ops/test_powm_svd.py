"""covpool.ops.powm_svd: powers of singular values, and their derivative on hard spectra."""

import numpy as np
import pytest
import torch
from torch import Tensor

from cases import CHANNELS, hard_matrices, spd
from covpool.ops import powm_svd
from ops import reference
from ops.oracles import assert_gradient, gradient, randn, refuses, relative_error, rotation


def with_singular_values(*s: float) -> Tensor:
    """A matrix with these singular values and unrelated left and right vectors."""
    c = len(s)
    return rotation(c, 1) @ torch.diag(torch.tensor(s, dtype=torch.float64)) @ rotation(c, 2)


REGULAR = {
    "distinct": with_singular_values(4.0, 2.5, 1.3, 0.6),
    "repeated": with_singular_values(3.0, 3.0, 2.0, 2.0),
    "rotation": rotation(4),
    "nearly_repeated": with_singular_values(2.0, 2.0 + 1e-13, 1.0),
    "symmetric": spd(2.0, 1.0, 0.5),
    "order_one": torch.tensor([[-1.7]], dtype=torch.float64),
}


@pytest.mark.parametrize("alpha", [0.3, 0.5, 1.0, 1.5])
@pytest.mark.parametrize("c", CHANNELS)
def test_equals_numpys_decomposition(c: int, alpha: float) -> None:
    a = randn(c, c)
    u, s, vh = np.linalg.svd(a.numpy())
    assert relative_error(powm_svd(a, alpha), torch.from_numpy(u * s**alpha @ vh)) <= 1e-12


def test_positive_semi_definite_matrices_get_their_matrix_power() -> None:
    for a in hard_matrices().values():
        assert relative_error(powm_svd(a, 0.7), reference.power(a, 0.7)) <= 1e-10


@pytest.mark.parametrize("alpha", [0.3, 0.5, 1.5])
@pytest.mark.parametrize("name", REGULAR)
def test_gradient_by_finite_differences(name: str, alpha: float) -> None:
    assert_gradient(lambda a: powm_svd(a, alpha), REGULAR[name])


def test_gradcheck_backward_and_forward() -> None:
    a = REGULAR["distinct"].clone().requires_grad_()
    assert torch.autograd.gradcheck(powm_svd, a, check_forward_ad=True, check_batched_grad=True)


@pytest.mark.parametrize("n", [2, 4, 9])
def test_gradient_through_the_streams_of_a_cross_moment_of_any_rank(n: int) -> None:
    """With n < c positions the null directions of the moment are those of the streams, and the gradient is exact."""
    y = randn(n, 6, seed=1)
    assert_gradient(lambda x: powm_svd(x.T @ y / n), randn(n, 6), step=1e-5)


def test_power_one_is_the_identity_with_the_identity_as_derivative() -> None:
    for a in (*REGULAR.values(), torch.zeros(3, 3, dtype=torch.float64)):
        g = randn(*a.shape)
        torch.testing.assert_close(powm_svd(a, 1.0), a)
        if a.any():
            torch.testing.assert_close(gradient(lambda a: powm_svd(a, 1.0), a, g), g)


def test_homogeneity_and_equivariance() -> None:
    a, u, v = REGULAR["distinct"], rotation(4, 5), rotation(4, 6)
    torch.testing.assert_close(powm_svd(u @ a @ v), u @ powm_svd(a) @ v)
    for scale in (1e-8, 1e8):
        torch.testing.assert_close(powm_svd(scale * a), scale**0.5 * powm_svd(a))


def test_zero_and_rank_one_are_finite() -> None:
    a = torch.stack((torch.zeros(3, 3), torch.outer(torch.ones(3), torch.tensor([1.0, -2.0, 3.0])))).requires_grad_()
    z = powm_svd(a)
    (da,) = torch.autograd.grad(z.sum(), a)
    assert not z[0].any() and not da[0].any()
    assert z.isfinite().all() and da.isfinite().all()
    torch.testing.assert_close(z[1], a[1] / torch.tensor(42.0) ** 0.25)


def test_a_fault_stays_in_its_item() -> None:
    a = randn(3, 4, 4)
    sound = powm_svd(a)
    a[1, 0, 2] = torch.nan
    z = powm_svd(a)
    assert z[1].isnan().all() and torch.equal(z[::2], sound[::2])


def test_second_derivatives_are_refused() -> None:
    a = REGULAR["distinct"].clone().requires_grad_()
    (da,) = torch.autograd.grad(powm_svd(a).sum(), a, create_graph=True)
    with refuses(RuntimeError, "second derivatives"):
        da.sum().backward()


def test_refusals_name_what_came() -> None:
    with refuses(ValueError, "`alpha`", "(0, 2]", "0"):
        powm_svd(torch.eye(2), 0)
    with refuses(ValueError, "`a`", "(2, 3)"):
        powm_svd(torch.ones(2, 3))
