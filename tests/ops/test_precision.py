"""covpool.ops.precision: half precision is promoted to float32, and autocast has no effect."""

import pytest
import torch
from torch import Tensor

from covpool.ops.precision import at_least_float32, full_precision, in_autocast, outside_autocast


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
