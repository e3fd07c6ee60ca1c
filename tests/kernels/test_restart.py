"""covpool.kernels.restart: what a repeated launch passes on, through Triton's launcher or past it."""

from typing import Any

import pytest
from torch import Tensor

from covpool.kernels import restart
from covpool.kernels.plan import Planned, launch_kernel
from covpool.kernels.restart import STREAM, StartedLaunch, call_again
from kernels.oracles import DEVICE, randn


@pytest.mark.parametrize("direct", [True, False])
def test_a_compiled_kernel_gets_addresses_constants_and_the_stream(
    direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restart, "DIRECT", direct)
    started: list[Any] = []

    class Compiled:
        function, packed_metadata = "function", "metadata"

        def run(self, *args: Any) -> None:
            started.append((args[:3], args[3], args[9:]))

        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            return lambda *args, stream: started.append((grid, stream, args))

    class Kernel:
        arg_names = ("x", "inner", "amount", "SIZE")

        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            return lambda *_, **__: Compiled()

    def function(x: Tensor) -> tuple[Tensor, ...]:
        inner, out = x.new_empty(5), x.new_empty(x.shape)
        launch_kernel(Kernel(), (2, 3), x, inner, 7, SIZE=16, num_warps=4)
        launch_kernel(Kernel(), (4,), inner, out, 8, SIZE=16)
        return (out,)

    planned = Planned(function)
    planned((randn(4),))
    x = randn(4)
    (out,) = planned((x,))
    (first, stream, one), (second, _, two) = started
    assert (first, second) == ((2, 3, 1), (4, 1, 1)) and stream is (None if DEVICE == "cpu" else stream)
    assert one == (x.data_ptr(), two[0], 7, 16) and two[1:] == (out.data_ptr(), 8, 16)


class Launcher:
    """A launcher as Triton 3.6 has it. Like Triton's own, it is an attribute of the compiled kernel."""

    global_scratch_size = profile_scratch_size = 0
    launch_cooperative_grid, launch_pdl = True, False

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.launch = self._launch

    def _launch(self, *args: Any) -> None:
        self.calls.append(args)

    def __call__(self, x: int, y: int, z: int, stream: Any, function: Any, *args: Any) -> None:
        scratch = object() if self.global_scratch_size else None
        self.launch(x, y, z, stream, function, self.launch_cooperative_grid, self.launch_pdl, scratch, None, *args)


class LauncherOfOneTuple(Launcher):
    """A launcher as Triton 3.9 has it, which passes the arguments of the kernel on as one tuple."""

    def __call__(self, x: int, y: int, z: int, stream: Any, function: Any, *args: Any) -> None:
        self.launch(x, y, z, stream, function, self.launch_cooperative_grid, self.launch_pdl, args)


class LauncherWithScratch(Launcher):
    global_scratch_size = 16


@pytest.mark.parametrize("kind", [Launcher, LauncherOfOneTuple, LauncherWithScratch])
def test_a_launcher_that_only_adds_constants_is_passed_by(kind: type[Launcher]) -> None:
    class Compiled:
        function, packed_metadata, run = 17, (4, 1, 0), kind()

    class Kernel:
        arg_names = ("x", "amount", "SIZE")

    x = randn(4)
    start, args = call_again(StartedLaunch(Kernel(), (2, 3), (x, 7.5), {"SIZE": 16, "num_warps": 4}, Compiled()))
    assert (start == Compiled.run.launch) == (kind is Launcher)
    assert not Compiled.run.calls  # nothing starts before it is asked for
    start(*[123 if value is STREAM else x.data_ptr() if value is x else value for value in args])
    expected = Launcher()
    kind.__call__(expected, 2, 3, 1, 123, 17, (4, 1, 0), None, None, None, x.data_ptr(), 7.5, 16)
    if kind is not LauncherWithScratch:
        assert Compiled.run.calls == expected.calls
    assert len(Compiled.run.calls) == 1
