"""covpool.kernels.plan: repeated launches give what the first call gave."""

from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from covpool.kernels import plan
from covpool.kernels.plan import Planned, launch_kernel
from kernels.oracles import randn


@triton.jit
def add_kernel(x, y, out, size, amount, SIZE: tl.constexpr):
    index = tl.arange(0, SIZE)
    total = tl.load(x + index, mask=index < size) + tl.load(y + index, mask=index < size)
    tl.store(out + index, total + amount, mask=index < size)


def doubled_twice(x: Tensor, y: Tensor | None, amount: float) -> tuple[Tensor, ...]:
    """4 x + 3 amount (or 2 (x + y) + 2 amount) through an intermediate tensor."""
    inner, out = x.new_empty(x.shape), x.new_empty(x.shape)
    constants = {"SIZE": triton.next_power_of_2(x.shape[0])}
    launch_kernel(add_kernel, (1,), x, x if y is None else y, inner, x.shape[0], amount, **constants)
    launch_kernel(add_kernel, (1,), inner, inner, out, x.shape[0], amount, **constants)
    return (out,)


def test_a_repeated_call_runs_the_launches_and_none_of_the_code() -> None:
    calls: list[int] = []

    def counted(*args: Any) -> tuple[Tensor, ...]:
        calls.append(1)
        return doubled_twice(*args)

    planned = Planned(counted)
    for seed in range(3):
        x = randn(10, seed=seed)
        torch.testing.assert_close(planned((x, None), 1.0)[0], 4 * x + 3)
    assert len(calls) == 1
    x, y = randn(10), randn(10, seed=1)
    torch.testing.assert_close(planned((x, None), 2.0)[0], 4 * x + 6)  # other options
    torch.testing.assert_close(planned((x, y), 2.0)[0], 2 * (x + y) + 6)  # another tensor
    torch.testing.assert_close(planned((y, x), 2.0)[0], 2 * (x + y) + 6)
    torch.testing.assert_close(planned((randn(7), None), 2.0)[0], 4 * randn(7) + 6)  # another shape
    shifted = randn(11)[1:]  # another alignment
    torch.testing.assert_close(planned((shifted, None), 2.0)[0], 4 * shifted + 6)
    assert len(calls) == 5


def test_a_first_call_with_the_same_tensor_twice() -> None:
    planned = Planned(doubled_twice)
    x, y = randn(10), randn(10, seed=1)
    torch.testing.assert_close(planned((x, x), 1.0)[0], 4 * x + 3)
    torch.testing.assert_close(planned((x, y), 1.0)[0], 2 * (x + y) + 3)
    torch.testing.assert_close(planned((y, x), 1.0)[0], 2 * (x + y) + 3)
    assert len(planned.plans) == 1


def test_a_sign_that_torch_keeps_outside_of_the_memory_is_seen() -> None:
    planned = Planned(doubled_twice)
    for seed in range(2):
        x = torch.complex(randn(10, seed=seed), randn(10, seed=2)).conj().imag
        assert x.is_neg()
        torch.testing.assert_close(planned((x, None), 1.0)[0], 4 * x + 3)


def test_a_plan_keeps_its_compiled_kernels() -> None:
    planned = Planned(doubled_twice)
    planned((randn(10), None), 1.0)
    (made,) = planned.plans.values()
    assert len(made.kernels) == 2


def test_results_that_are_not_needed_become_intermediate_tensors() -> None:
    def both(x: Tensor) -> tuple[Tensor, ...]:
        inner, out = x.new_empty(x.shape), x.new_empty(x.shape)
        launch_kernel(add_kernel, (1,), x, x, inner, x.shape[0], 1.0, SIZE=16)
        launch_kernel(add_kernel, (1,), inner, inner, out, x.shape[0], 1.0, SIZE=16)
        return out, inner

    planned = Planned(both)
    for seed in range(3):
        x = randn(10, seed=seed)
        found = [planned((x,), outputs=1), planned((x,))]
        assert [len(results) for results in found] == [1, 2]
        torch.testing.assert_close(found[1][1], 2 * x + 1)
        for out, *_ in found:
            torch.testing.assert_close(out, 4 * x + 3)
    one, two = planned.plans.values()
    assert (one.bytes, two.bytes) == (256, 0)


def test_the_oldest_plan_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MOST_PLANS", 2)
    planned = Planned(doubled_twice)
    for amount in (1.0, 2.0, 3.0):
        planned((randn(4), None), amount)
    assert [key[0] for key in planned.plans] == [(2.0,), (3.0,)]


def test_a_view_of_an_input_is_refused() -> None:
    planned = Planned(lambda x: doubled_twice(x.view(-1), None, 1.0))
    with pytest.raises(AssertionError, match="as they are"):
        planned((randn(4),))
    assert plan._recording.launches is None
