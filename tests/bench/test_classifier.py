"""The benchmark of the classifier, at a small size."""

import pytest
import torch

from covpool.bench import _classifier


def test_one_record_with_the_size_and_convergence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_classifier.SIZES, "cpu", (40, 100, 2))
    (record,) = _classifier.classifier(torch.device("cpu"), 0.1, 0)
    assert record.shape == (40, 100, 2) and record.median_ms > 0
    assert record.extra["converged"] == 1.0 and record.extra["accuracy"] > 0.5
