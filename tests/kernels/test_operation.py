"""covpool.kernels.operation: a mapped operation equals a loop over its items."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from covpool.kernels import isqrt, sqrtm
from kernels.conftest import replace
from kernels.oracles import randn


@pytest.mark.parametrize("form", ["primal", "dual"])
@pytest.mark.parametrize("dim", [0, 1])
def test_features_mapped_over_any_dimension(form: str, dim: int) -> None:
    x, g = randn(2, 9, 5), randn(2, 15, seed=1)
    options = (form, 3, True, "tf32")

    def both(x: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z, *saved = isqrt.forward(x, None, *options)
        return z, isqrt.backward(x, None, *saved, g, *options)

    mapped_x, mapped_g = x.unsqueeze(1).movedim(0, dim), g.unsqueeze(1).movedim(0, dim)
    z, dx = torch.func.vmap(both, in_dims=(dim, dim))(mapped_x, mapped_g)
    expected, expected_dx = both(x, g)
    assert torch.equal(z, expected.unsqueeze(1)) and torch.equal(dx, expected_dx.unsqueeze(1))


def test_arguments_that_are_not_mapped_are_repeated() -> None:
    x = randn(1, 5, 5)
    s, g = x @ x.mT, randn(2, 1, 5, 5, seed=1)
    g = g + g.mT
    mapped = torch.func.vmap(lambda h: sqrtm.backward(s, h, 3, True, "tf32"))(g)
    for value, h in zip(mapped, g, strict=True):
        assert torch.equal(value, sqrtm.backward(s, h, 3, True, "tf32"))


def test_more_items_than_a_launch_takes_go_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    x = randn(5, 1, 9, 5)
    options = ("dual", 3, True, "tf32")
    expected = isqrt.forward(x.squeeze(1), None, *options)
    replace(monkeypatch, "LARGEST_BATCH", 2)
    batches = []
    monkeypatch.setattr(isqrt, "forward_dual", record_batches(isqrt.forward_dual, batches))
    mapped = torch.func.vmap(lambda x: isqrt.forward(x, None, *options))(x)
    assert batches == [2, 2, 1]
    for ours, theirs in zip(mapped, expected, strict=True):
        assert torch.equal(ours.squeeze(1), theirs)


def record_batches(operation: Callable[..., Any], batches: list[int]) -> Callable[..., Any]:
    def run(x: torch.Tensor, *rest: Any) -> Any:
        batches.append(len(x))
        return operation(x, *rest)

    return run
