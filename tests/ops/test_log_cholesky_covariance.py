"""covpool.ops.log_cholesky_covariance: against the operations one after the other."""

import pytest
import torch
from torch import Tensor

from cases import features, generator, hard_features
from covpool.ops.log_cholesky_covariance import _plain, log_cholesky_covariance
from ops.oracles import gradient, randn, relative_error

WEIGHTS = torch.rand(2, 9, dtype=torch.float64, generator=generator()) + 0.1
WEIGHTS = WEIGHTS / WEIGHTS.sum(-1, keepdim=True)
# The last eps is below the round-off of the trace, which replaces it.
OPTIONS = [(1e-2, True, 1.0), (1e-2, False, 2.0), (1e-6, True, 2.0), (1e-30, True, 2.0)]


def directly(x: Tensor, w: Tensor | None, eps: float, relative: bool, factor: float) -> Tensor:
    return log_cholesky_covariance(x, w, eps=eps, relative=relative, factor=factor)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("c", [1, 4, 20])
def test_value_and_gradient(c: int, weighted: bool, options: tuple[float, bool, float]) -> None:
    if options[0] < 1e-10 and c == 20:
        pytest.skip("a singular matrix has no factor")
    x, w = features(2, 9, c), WEIGHTS if weighted else None
    z, expected = directly(x, w, *options), _plain(x, w, *options)
    assert z.shape == (2, c * (c + 1) // 2) and relative_error(z, expected) <= 1e-9
    g = randn(*z.shape, seed=1)
    found = gradient(lambda x: directly(x, w, *options), x, g)
    assert relative_error(found, gradient(lambda x: _plain(x, w, *options), x, g)) <= 1e-7


def test_float32_is_computed_in_float64() -> None:
    x = features(2, 9, 20, dtype=torch.float32)
    options = (1e-6, True, 2.0)
    g = randn(2, 210, seed=1).float()
    assert torch.equal(directly(x, None, *options), directly(x.double(), None, *options).float())
    found = gradient(lambda x: directly(x, None, *options), x, g)
    exact = gradient(lambda x: directly(x, None, *options), x.double(), g.double())
    assert found.dtype == torch.float32 and relative_error(found, exact) <= 1e-7


@pytest.mark.parametrize("weighted", [False, True])
def test_derivatives_of_every_kind(weighted: bool) -> None:
    x, w = features(2, 9, 3).requires_grad_(), WEIGHTS if weighted else None

    def f(x: Tensor) -> Tensor:
        return directly(x, w, 1e-2, True, 2.0)

    assert torch.autograd.gradcheck(f, x, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(f, x)
    torch.testing.assert_close(torch.vmap(f)(x.detach().expand(2, 2, 9, 3)), f(x).detach().expand(2, 2, 6))


def test_the_derivative_in_the_weights() -> None:
    x, w = features(2, 9, 3), WEIGHTS.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda w: directly(x, w, 1e-2, True, 2.0), w)


@pytest.mark.parametrize("case", hard_features())
def test_hard_features_are_finite(case: str) -> None:
    x = hard_features()[case].requires_grad_()
    z = directly(x, None, 1e-6, True, 2.0)
    (dx,) = torch.autograd.grad(z.sum(), x)
    assert z.isfinite().all() and dx.isfinite().all()


def test_a_fault_stays_in_its_image_with_its_gradient() -> None:
    x = features(3, 9, 4)
    sound = directly(x, None, 1e-6, True, 2.0)
    x[1, 2, 3] = torch.nan
    x.requires_grad_()
    z = directly(x, None, 1e-6, True, 2.0)
    (dx,) = torch.autograd.grad(z.nan_to_num().sum(), x)
    assert z[1].isnan().any() and torch.equal(z[::2], sound[::2])
    assert dx[1].isnan().all() and dx[::2].isfinite().all()
