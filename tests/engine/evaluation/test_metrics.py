import pytest
import torch
from sklearn.metrics import log_loss, top_k_accuracy_score

from covpool.engine.evaluation import _metrics as metrics
from covpool.engine.evaluation._metrics import accuracies


def test_against_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "ROWS", 16)
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


def test_fewer_classes_than_places() -> None:
    found = accuracies(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1]))
    assert (found["top1"], found["top3"], found["top5"]) == (0.5, 1.0, 1.0)


def test_nothing_to_judge_by() -> None:
    assert accuracies(torch.randn(3, 4), torch.tensor([-1, -1, -1])) == {}
    assert accuracies(torch.randn(0, 4), torch.zeros(0, dtype=torch.long)) == {}


def test_nothing_is_summed_over_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process has all the scores; and NCCL would refuse what lies on the CPU."""
    monkeypatch.setattr("torchmetrics.metric.jit_distributed_available", lambda: True)
    assert accuracies(torch.eye(4), torch.arange(4))["top1"] == 1
