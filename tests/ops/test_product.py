"""covpool.ops.product: torch's product, except that autocast does not affect the backward pass."""

import pytest
import torch

from covpool.ops.product import product
from ops.oracles import gradient, randn


def test_equals_matmul_with_its_gradient_of_any_order() -> None:
    x, y = randn(2, 3, 4).requires_grad_(), randn(2, 4, 5, seed=1).requires_grad_()
    assert torch.equal(product(x, y), x @ y)
    assert torch.autograd.gradcheck(product, (x, y), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(product, (x, y), check_fwd_over_rev=True)


@pytest.mark.parametrize("constant", ["left", "right"])
def test_one_constant_factor(constant: str) -> None:
    x, y = randn(3, 4), randn(4, 5, seed=1)
    f = (lambda t: product(x, t)) if constant == "left" else (lambda t: product(t, y))
    t = y if constant == "left" else x
    assert torch.autograd.gradcheck(f, t.clone().requires_grad_(), check_forward_ad=True)


def test_backward_inside_autocast_is_not_lowered() -> None:
    x, y, g = (randn(6, 6, seed=seed, dtype=torch.float32) for seed in range(3))
    with torch.autocast("cpu", torch.bfloat16):
        lowered = gradient(lambda t: t @ y, x, g)
        with torch.autocast("cpu", enabled=False):
            z = product(t := x.clone().requires_grad_(), y)
        (kept,) = torch.autograd.grad((g * z).sum(), t)
    assert not torch.equal(lowered, g @ y.mT)
    assert torch.equal(kept, g @ y.mT)


def test_vmap() -> None:
    x, y = randn(5, 3, 4), randn(4, 2, seed=1)
    torch.testing.assert_close(torch.vmap(product, in_dims=(0, None))(x, y), x @ y)
