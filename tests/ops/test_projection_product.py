"""covpool.ops.projection_product: random Maclaurin features, the choice of form, masks, weights."""

import pytest
import torch
from torch import Tensor

from cases import features, generator
from covpool.ops import projection_product
from covpool.ops.projection_product import PROJECTION_FORMS, ProjectionForm, projection_form
from ops.oracles import gradient, randn, refuses, relative_error

MASK = torch.tensor([[True, True, False, True, False, True], [False, True, True, False, False, True]])
WEIGHTS = torch.rand(2, 6, dtype=torch.float64, generator=generator()) + 0.1


def rows(x: Tensor, factors: Tensor) -> Tensor:
    """The product at every position, component by component: (b, n, d)."""
    return torch.stack(
        [torch.stack([torch.stack([(row @ u).prod() for u in factors.permute(2, 1, 0)]) for row in item]) for item in x]
    )


@pytest.mark.parametrize(("order", "form"), [(1, None), (2, "positions"), (2, "moment"), (3, None), (4, "positions")])
def test_every_order_and_form_component_by_component(order: int, form: ProjectionForm | None) -> None:
    x, factors = features(2, 6, 4), randn(order, 4, 5, seed=1)
    each = rows(x, factors)
    assert relative_error(projection_product(x, factors, form=form), each.mean(1)) <= 1e-14
    kept = torch.stack([each[i, MASK[i]].mean(0) for i in range(2)])
    assert relative_error(projection_product(x, factors, mask=MASK, form=form), kept) <= 1e-14
    weighted = (each * WEIGHTS[..., None]).sum(1) / WEIGHTS.sum(1, keepdim=True)
    assert relative_error(projection_product(x, factors, weights=3 * WEIGHTS, form=form), weighted) <= 1e-14


def test_component_is_a_quadratic_form() -> None:
    """<u_k v_k^T, mean of x x^T>."""
    x, factors = features(2, 6, 4), randn(2, 4, 5, seed=1)
    moment = x.mT @ x / 6
    expected = torch.stack([(moment * torch.outer(u, v)).sum((1, 2)) for u, v in zip(*factors.mT, strict=True)], 1)
    torch.testing.assert_close(projection_product(x, factors), expected)


def test_random_maclaurin_is_unbiased_for_the_squared_inner_product() -> None:
    """The mean of <z(x), z(y)> / D over 20 000 draws lies within four standard errors of <x, y>^2."""
    x, y = features(2, 1, 5, seed=3)
    y = y + x
    factors = torch.randint(2, (20_000, 2, 5, 16), generator=generator(5)).double() * 2 - 1
    estimates = torch.vmap(lambda u: (projection_product(x, u) * projection_product(y, u)).sum() / 16)(factors)
    target = float((x * y).sum()) ** 2
    assert target > 1
    assert abs(float(estimates.mean()) - target) <= 4 * float(estimates.std()) / 20_000**0.5


def test_forms_are_equal_with_their_gradients() -> None:
    x, factors, g = features(2, 6, 7), randn(2, 7, 9, seed=1), randn(2, 9, seed=2)
    for positions in ({}, {"mask": MASK}, {"mask": MASK, "weights": WEIGHTS}):
        one, other = (lambda x, f=f, p=positions: projection_product(x, factors, form=f, **p) for f in PROJECTION_FORMS)
        assert relative_error(gradient(one, x, g), gradient(other, x, g)) <= 1e-13


@pytest.mark.parametrize(("n", "c", "form"), [(784, 512, "moment"), (49, 256, "positions"), (196, 256, "moment")])
def test_the_form_goes_by_the_shape(n: int, c: int, form: ProjectionForm) -> None:
    assert projection_form(n, c, 8192) == form


@pytest.mark.parametrize("form", PROJECTION_FORMS)
def test_derivatives_of_every_kind(form: ProjectionForm) -> None:
    x, w = features(2, 3, 3).requires_grad_(), WEIGHTS[:, :3].clone().requires_grad_()
    factors = randn(2, 3, 4, seed=1).requires_grad_()

    def f(x: Tensor, u: Tensor, w: Tensor) -> Tensor:
        return projection_product(x, u, weights=w, form=form)

    assert torch.autograd.gradcheck(f, (x, factors, w), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(f, (x, factors, w))


def test_refusals_name_what_came() -> None:
    x = features(2, 6, 4)
    with refuses(ValueError, "(r, 4, d)", "(2, 3, 5)"):
        projection_product(x, randn(2, 3, 5))
    with refuses(ValueError, "(r, 4, d)", "(0, 4, 5)"):
        projection_product(x, randn(0, 4, 5))
    with refuses(ValueError, "order 2", "order 3"):
        projection_product(x, randn(3, 4, 5), form="moment")
    with refuses(ValueError, "`form`", "'fft'"):
        projection_product(x, randn(2, 4, 5), form="fft")  # type: ignore[arg-type]
