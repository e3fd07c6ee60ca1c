"""Suites give times and small errors; those of roots and of start-up measure what they say."""

import gc
import weakref

import pytest
import torch
from torch import Tensor

import covpool
from covpool import ops
from covpool.bench import SUITES, Record
from covpool.bench import _suites as suites
from covpool.bench._candidates import CandidateSet
from covpool.bench._compare import compare
from covpool.bench._measure import saved_memory
from covpool.bench._suites import VARIANTS

CPU = torch.device("cpu")
SHAPE = (2, 24, 8)  # well-conditioned, so that float32 does not cause errors


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(suites.POOL_SHAPE, "cpu", SHAPE)
    monkeypatch.setitem(suites.ISQRT_SHAPES, "cpu", (SHAPE,))
    monkeypatch.setitem(suites.MPN_SHAPES, "cpu", (SHAPE,))
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)  # compiling takes a minute


def errors(record: Record) -> tuple[float, float]:
    assert record.value_error is not None and record.gradient_error is not None
    return record.value_error, record.gradient_error


@pytest.mark.parametrize("suite", ["isqrt", "mpn", "operations", "pools"])
def test_a_suite_gives_times_and_small_errors(suite: str) -> None:
    records = list(SUITES[suite](CPU, 0.0, 0))
    assert suite in SUITES and len(records) > 1
    for record in records:
        assert max(errors(record)) < 1e-3, record.name
        assert 0 < record.p20_ms <= record.median_ms <= record.p80_ms
        assert record.shape == SHAPE and record.passes == "forward+backward"


def test_the_baseline_comes_first_with_ratio_one() -> None:
    records = list(SUITES["isqrt"](CPU, 0.0, 0))
    assert records[0].name == "literal" and records[0].ratio == 1.0
    assert all(record.ratio is not None and record.ratio > 0 for record in records)


def test_every_pool_is_measured_once_against_average_pooling() -> None:
    records = list(SUITES["pools"](CPU, 0.0, 0))
    assert sorted(record.name for record in records) == sorted([*covpool.list_pools(), *VARIANTS])
    assert (records[0].name, records[0].ratio) == ("avg", 1.0)


def test_a_wrong_candidate_has_large_errors() -> None:
    def wrong(x: Tensor) -> Tensor:
        return 1.5 * ops.covariance(x)

    comparison = CandidateSet({"right": ops.covariance, "wrong": wrong}, ops.covariance)
    right, false = compare("covariance", comparison, SHAPE, CPU, 0.0, 0)
    assert max(errors(right)) < 1e-5
    assert errors(false) == pytest.approx((0.5, 0.5), rel=1e-4)


def test_the_seed_determines_the_inputs() -> None:
    def run(seed: int) -> list[tuple[float, float]]:
        return [errors(record) for record in SUITES["isqrt"](CPU, 0.0, seed)]

    assert run(0) == run(0) != run(1)


def test_saved_memory_counts_each_storage_once() -> None:
    x = torch.randn(512, 512, requires_grad=True)  # 1 MiB
    assert saved_memory(lambda: x.exp().sum()) == pytest.approx(1.0)
    assert saved_memory(lambda: (x * x).sum()) == pytest.approx(1.0), "both operands are one storage"


def test_measuring_saved_memory_frees_the_network() -> None:
    weight = torch.ones(4, 4, requires_grad=True)
    alive = weakref.ref(weight)
    saved_memory(lambda weight=weight: (torch.ones(1, 4) @ weight).exp())  # exp saves its own output
    del weight
    gc.collect()
    assert alive() is None


def test_more_iterations_come_closer_to_the_exact_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(suites.ROOT_SHAPES, "cpu", (2, 24, 8))
    found = {record.name: record for record in SUITES["roots"](CPU, 0.0, 0)}
    assert len(found) == 7 and all(record.extra["saved_mib"] > 0 for record in found.values())
    exact, few, many = (
        found[name].value_error
        for name in (
            suites.EXACT_BCNN,
            "improved_bcnn, NS 5, exact Lyapunov",
            "improved_bcnn, NS 20, iterative Lyapunov 20",
        )
    )
    assert exact is not None and few is not None and many is not None
    assert exact < 1e-4 and many < 1e-3 < few, "five iterations are rough, twenty are close"


def test_processes_are_compared_with_importing_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = dict.fromkeys(suites.START_COMMANDS, ("-c", "pass"))
    monkeypatch.setattr(suites, "START_COMMANDS", quick)
    records = list(SUITES["startup"](torch.device("cpu"), 0.0, 0))
    assert [record.name for record in records] == list(quick)
    assert records[0].name == "import torch" and records[0].ratio == 1.0
    assert all(record.suite == "startup" and record.shape == () for record in records)
