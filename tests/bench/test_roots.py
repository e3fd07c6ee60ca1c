"""Algorithms for the square root: memory saved for the backward pass, and error."""

import pytest
import torch

from covpool.bench import _roots as roots
from covpool.bench import run_suite
from covpool.bench._measure import saved_memory

CPU = torch.device("cpu")


def test_saved_memory_counts_each_storage_once() -> None:
    x = torch.randn(512, 512, requires_grad=True)  # 1 MiB
    assert saved_memory(lambda: x.exp().sum()) == pytest.approx(1.0)
    assert saved_memory(lambda: (x * x).sum()) == pytest.approx(1.0), "both operands are one storage"


def test_more_iterations_come_closer_to_the_exact_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(roots.SHAPES, "cpu", (2, 24, 8))
    found = {record.name: record for record in run_suite("roots", CPU, seconds=0.0)}
    assert len(found) == 7 and all(record.extra["saved_mib"] > 0 for record in found.values())
    exact, few, many = (
        found[name].value_error
        for name in (roots.EXACT, "improved_bcnn, NS 5, exact Lyapunov", "improved_bcnn, NS 20, iterative Lyapunov 20")
    )
    assert exact is not None and few is not None and many is not None
    assert exact < 1e-4 and many < 1e-3 < few, "five iterations are rough, twenty are close"
