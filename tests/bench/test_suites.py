import pytest
import torch
from torch import Tensor

import covpool
from covpool import ops
from covpool.bench import SUITES, Record, run_suite
from covpool.bench import _suites as suites
from covpool.bench._candidates import Comparison
from covpool.bench._compare import compare

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
    records = list(run_suite(suite, CPU, seconds=0.0))
    assert suite in SUITES and len(records) > 1
    for record in records:
        assert max(errors(record)) < 1e-3, record.name
        assert 0 < record.p20_ms <= record.median_ms <= record.p80_ms
        assert record.shape == SHAPE and record.passes == "forward+backward"


def test_the_baseline_comes_first_with_ratio_one() -> None:
    records = list(run_suite("isqrt", CPU, seconds=0.0))
    assert records[0].name == "literal" and records[0].ratio == 1.0
    assert all(record.ratio is not None and record.ratio > 0 for record in records)


def test_every_pool_is_measured_once_against_average_pooling() -> None:
    records = list(run_suite("pools", CPU, seconds=0.0))
    assert sorted(record.name for record in records) == sorted(covpool.list_pools())
    assert (records[0].name, records[0].ratio) == ("avg", 1.0)


def test_a_wrong_candidate_has_large_errors() -> None:
    def wrong(x: Tensor) -> Tensor:
        return 1.5 * ops.covariance(x)

    comparison = Comparison({"right": ops.covariance, "wrong": wrong}, ops.covariance)
    right, false = compare("covariance", comparison, SHAPE, CPU, 0.0, 0)
    assert max(errors(right)) < 1e-5
    assert errors(false) == pytest.approx((0.5, 0.5), rel=1e-4)


def test_the_seed_determines_the_inputs() -> None:
    def run(seed: int) -> list[tuple[float, float]]:
        return [errors(record) for record in run_suite("isqrt", CPU, seconds=0.0, seed=seed)]

    assert run(0) == run(0) != run(1)
