"""covpool.ops.precision: half precision is promoted to float32, and autocast has no effect, in gradients either."""

import pytest
import torch
from torch import Tensor

from covpool.ops.precision import at_least_float32, full_precision, in_autocast, outside_autocast, product
from ops.oracles import gradient, randn


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_at_least_float32(dtype: torch.dtype, expected: torch.dtype) -> None:
    x = torch.tensor([0.5, 6e4], dtype=dtype)
    assert at_least_float32(x).dtype == expected
    assert torch.equal(at_least_float32(x).double(), x.double())


def test_float32_is_not_copied() -> None:
    x = torch.ones(3)
    assert at_least_float32(x) is x


def test_products_outside_autocast_keep_their_dtype() -> None:
    x = torch.ones(2, 2)
    with torch.autocast("cpu", torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
        with outside_autocast(x):
            assert (x @ x).dtype == torch.float32
        assert (x @ x).dtype == torch.bfloat16


def test_a_graph_exported_outside_autocast_leaves_it_where_it_runs() -> None:
    x = torch.randn(2, 3, 3)

    class Products(torch.nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            with outside_autocast(x):
                ours = x @ x
            return ours, x @ x

    program = torch.export.export(Products(), (x,)).module()
    with torch.autocast("cpu", torch.bfloat16):
        ours, other = program(x)
    assert (ours.dtype, other.dtype) == (torch.float32, torch.bfloat16)
    assert torch.equal(ours, x @ x)


def test_outside_autocast_takes_shapes_only_tensors() -> None:
    x = torch.ones(2, 2, device="meta")
    with outside_autocast(x):
        assert (x @ x).shape == (2, 2)


def test_in_autocast() -> None:
    x = torch.ones(2)
    assert not in_autocast(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert in_autocast(x)
        assert not in_autocast(x.to("meta"))
        with outside_autocast(x):
            assert not in_autocast(x)


@full_precision
def gram(x: Tensor, *, scale: float = 1.0) -> Tensor:
    """x^T x."""
    return x.mT @ x * scale


def test_decorated_operation() -> None:
    x = torch.full((1, 1), 1 + 2**-10)  # a square that bfloat16 rounds to 1
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(gram(x, scale=2), 2 * x * x)
        assert gram(x.half()).dtype == torch.float32
    assert gram.__name__ == "gram"
    assert gram.__doc__ == "x^T x."


def test_decorated_operation_leaves_the_check_of_its_argument_to_the_operation() -> None:
    with pytest.raises(AttributeError):
        gram([1.0])  # type: ignore[arg-type]


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
