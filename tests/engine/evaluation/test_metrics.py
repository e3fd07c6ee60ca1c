"""Metrics against scikit-learn, and the calibration error against numpy."""

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss, top_k_accuracy_score

from covpool.engine.evaluation._metrics import accuracies, calibration_error


def test_against_scikit_learn() -> None:
    generator = torch.Generator().manual_seed(0)
    scores, targets = torch.randn(50, 12, generator=generator), torch.randint(12, (50,), generator=generator)
    targets[7] = -1
    known = targets >= 0
    found = accuracies(scores, targets)
    for k in (1, 3, 5):
        expected = top_k_accuracy_score(targets[known], scores[known], k=k, labels=range(12))
        assert found[f"top{k}"] == pytest.approx(expected, abs=1e-12)
    probabilities = scores[known].double().softmax(1)
    assert found["loss"] == pytest.approx(log_loss(targets[known], probabilities, labels=range(12)))


def test_top_k_with_fewer_classes_than_k() -> None:
    found = accuracies(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1]))
    assert (found["top1"], found["top3"], found["top5"]) == (0.5, 1.0, 1.0)


def test_equal_scores_are_ranked_by_class() -> None:
    scores = torch.zeros(10, 100)
    scores[:, 50:] = -1
    found = accuracies(scores, torch.tensor([0] * 5 + [2] * 3 + [4] + [5]))
    assert (found["top1"], found["top3"], found["top5"]) == (0.5, 0.8, 0.9)


def test_no_known_class_gives_no_metrics() -> None:
    assert accuracies(torch.randn(3, 4), torch.tensor([-1, -1, -1])) == {}
    assert accuracies(torch.randn(0, 4), torch.zeros(0, dtype=torch.long)) == {}


@pytest.mark.parametrize("scale", [0.3, 3.0, 40.0], ids=["unsure", "sure", "saturated"])
def test_calibration_error_against_numpy(scale: float) -> None:
    """Bin by bin: |mean confidence - accuracy|, weighted by the share of images; confidence 1 is a bin of its own."""
    generator = torch.Generator().manual_seed(0)
    scores, targets = scale * torch.randn(300, 6, generator=generator), torch.randint(6, (300,), generator=generator)
    shifted = np.exp(scores.double().numpy() - scores.double().numpy().max(1, keepdims=True))
    confidence = (shifted / shifted.sum(1, keepdims=True)).max(1).astype(np.float32)
    hits = scores.numpy().argmax(1) == targets.numpy()
    bins = np.digitize(confidence, np.linspace(0, 1, 16, dtype=np.float32))
    expected = 0.0
    for number in np.unique(bins):
        inside = bins == number
        expected += inside.mean() * abs(confidence[inside].astype(float).mean() - hits[inside].mean())
    assert calibration_error(scores, targets) == pytest.approx(expected, abs=1e-9)
