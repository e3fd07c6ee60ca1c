import pytest
import torch

from covpool.bench._measure import Timing, count_launches, peak_memory, synchronize, time_interleaved

CPU = torch.device("cpu")


def test_percentiles_do_not_depend_on_the_order() -> None:
    shuffled = [float((7 * i) % 101) for i in range(101)]  # 0 to 100
    assert Timing.of(shuffled) == Timing(50.0, 20.0, 80.0)


def test_one_value_and_an_outlier() -> None:
    assert Timing.of([3.0]) == Timing(3.0, 3.0, 3.0)
    assert Timing.of([1.0, 1.0, 1.0, 1.0, 1000.0]).median == 1.0


def test_calls_are_interleaved_and_repeated() -> None:
    order: list[str] = []
    calls = {name: lambda name=name: order.append(name) for name in ("a", "b", "c")}
    timings = time_interleaved(calls, CPU, 0.0)
    assert list(timings) == ["a", "b", "c"]
    assert all(t.p20 <= t.median <= t.p80 for t in timings.values())
    measured = "".join(order)
    assert measured.endswith("abcabcabcabcabc"), "at least five rounds"


def test_gpu_measurements_are_none_on_a_cpu() -> None:
    synchronize(CPU)
    assert peak_memory(lambda: torch.ones(3), CPU) is None
    assert count_launches(lambda: torch.ones(3), CPU) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_memory_and_launches_on_a_gpu() -> None:
    gpu = torch.device("cuda")
    x = torch.ones(2**20, device=gpu)
    memory = peak_memory(lambda: x + 1, gpu)
    launches = count_launches(lambda: x + 1, gpu)
    assert memory is not None and memory >= 4
    assert launches is not None and launches >= 1
