"""Kernels are tested in memory filled with NaN and, in Triton's interpreter, which is slow, with small tiles."""

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

if importlib.util.find_spec("triton") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    import triton
    from triton.runtime.interpreter import GridExecutor
    from triton.runtime.jit import JITFunction

    from covpool.kernels import batch_norm, covariance, depthwise, isqrt, lyapunov, plan, power, shape, sqrtm

SMALL = 16


def replace(monkeypatch: pytest.MonkeyPatch, name: str, value: object) -> None:
    """Replace a name in every module of the kernels that uses it."""
    for module in [m for key, m in sys.modules.items() if key.startswith("covpool.kernels.")]:
        if hasattr(module, name):
            monkeypatch.setattr(module, name, value)


@pytest.fixture(autouse=True)
def no_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test starts without plans, because many of them change tiles or teams."""
    for module in (batch_norm, covariance, depthwise, isqrt, lyapunov, power, sqrtm):
        for planned in [value for value in vars(module).values() if isinstance(value, plan.Planned)]:
            monkeypatch.setattr(planned, "plans", {})


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    if triton.knobs.runtime.interpret:
        small = shape.Tiling(SMALL, SMALL, 4, 1, SMALL, 4)
        replace(monkeypatch, "tiling", lambda order, parts, room=shape.LARGE_SHARED_MEMORY: small)
        blocks = ("CHANNEL_BLOCK", "POSITION_BLOCK", "MOMENT_CHANNELS", "MOMENT_POSITIONS", "MOST_POSITIONS")
        for name in (*blocks, "DIRECTION_TILE"):
            replace(monkeypatch, name, SMALL)


@pytest.fixture(autouse=True)
def poisoned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """New memory holds NaN, or 100 in counters, so that an element which a kernel does not write is noticed."""

    def poisoned(allocate: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def allocate_poisoned(*args: Any, **kwargs: Any) -> Tensor:
            memory = allocate(*args, **kwargs)
            return memory if memory.is_meta else memory.fill_(torch.nan if memory.is_floating_point() else 100)

        return allocate_poisoned

    monkeypatch.setattr(torch, "empty_like", poisoned(torch.empty_like))
    monkeypatch.setattr(Tensor, "new_empty", poisoned(Tensor.new_empty))
    monkeypatch.setattr(Tensor, "new_empty_strided", poisoned(Tensor.new_empty_strided))


@pytest.fixture(params=["alone", "together"])
def launch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launch one program per matrix, or a team of programs. Teams need a GPU, where programs run at the same time."""

    def alone(t: shape.Tiling, batch: int, *_: int) -> shape.Team:
        return shape.Team(t, 1, batch)

    def together(t: shape.Tiling, batch: int, size: int, copies: int, processors: int, *_: int) -> shape.Team:
        members = min(shape.triangle_tiles(size, t.tile), processors)
        return shape.Team(t, members, min(batch, processors // members))

    if request.param == "together" and triton.knobs.runtime.interpret:
        pytest.skip("the interpreter runs one program after the other, so they cannot wait for each other")
    replace(monkeypatch, "team", alone if request.param == "alone" else together)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that grows by one with every launch of a kernel."""
    counted: list[Any] = []
    owner, name = (GridExecutor, "__call__") if triton.knobs.runtime.interpret else (JITFunction, "run")
    launch_kernel = getattr(owner, name)

    def launch_and_count(self: Any, *args: Any, **options: Any) -> Any:
        counted.append(self)
        return launch_kernel(self, *args, **options)

    monkeypatch.setattr(owner, name, launch_and_count)
    return counted
