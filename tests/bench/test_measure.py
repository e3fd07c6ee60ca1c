"""Times and memory, and the share of a device's limits that a pool reaches, against formulas by hand."""

import pytest
import torch

import covpool
from covpool.bench._measure import (
    Timing,
    copy_rate,
    count_launches,
    matmul_rate,
    peak_memory,
    pool_shares,
    synchronize,
    time_interleaved,
)

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


def test_rates_are_positive() -> None:
    assert matmul_rate(CPU, torch.float32, order=64) > 0 and copy_rate(CPU, mebibytes=1) > 0


def test_shares_of_plain_covariance_by_hand() -> None:
    pool = covpool.create_pool("cov", 8)
    shares = pool_shares(pool, (2, 9, 8), milliseconds=1e-3, limits=(1.0, 1.0))
    flops = 3 * 2 * 2 * 9 * 8 * 8
    size = 4 * (3 * 2 * 9 * 8 + 2 * 2 * 36)
    assert shares == pytest.approx({"share_of_products": flops / 1e-6 / 1e12, "share_of_copy": size / 1e-6 / 1e9})
