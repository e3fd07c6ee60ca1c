"""Evaluations against counting by hand."""

import pytest
import torch

from covpool.engine.evaluation._summary import summarize_scores

NAMES = ["a", "b", "c", "d"]


def test_accuracy_confusion_and_classes_by_hand() -> None:
    answers = torch.tensor([0, 0, 1, 1, 3, 2])
    targets = torch.tensor([0, 1, 1, 1, 3, -1])
    found = summarize_scores(torch.nn.functional.one_hot(answers, 4).double() * 5, targets, NAMES)
    assert (found.images, found.unread) == (5, 1)
    assert found.accuracy["top1"] == pytest.approx(0.8) and found.accuracy["top5"] == 1
    expected = torch.zeros(4, 4, dtype=torch.long)
    expected[0, 0], expected[1, 0], expected[1, 1], expected[3, 3] = 1, 1, 2, 1
    assert torch.equal(found.confusion, expected)
    assert [(row.label, row.name, row.images) for row in found.by_class] == [(1, "b", 3), (0, "a", 1), (3, "d", 1)]
    assert [row.top1 for row in found.by_class] == pytest.approx([2 / 3, 1, 1])
    low, high = found.interval["top1"]
    assert low < 0.8 < high


def test_two_classes_with_one_name_are_both_listed() -> None:
    found = summarize_scores(torch.eye(3), torch.tensor([0, 1, 1]), ["crane", "owl", "crane"])
    assert found.as_json()["by_class"] == [
        {"label": 1, "name": "owl", "images": 2, "top1": 0.5},
        {"label": 0, "name": "crane", "images": 1, "top1": 1.0},
    ]
    found = summarize_scores(torch.eye(3), torch.arange(3), ["crane", "owl", "crane"])
    assert [row["name"] for row in found.as_json()["by_class"]] == ["crane", "owl", "crane"]


def test_calibration_error_of_a_sure_classifier_that_is_wrong_half_the_time() -> None:
    scores = torch.tensor([[100.0, 0, 0, 0]] * 10)
    targets = torch.tensor([0, 1] * 5)
    assert summarize_scores(scores, targets, NAMES).calibration_error == pytest.approx(0.5, abs=1e-6)
    assert summarize_scores(scores, targets, NAMES, probabilities=False).calibration_error is None


def test_scores_that_cannot_be_evaluated_are_refused() -> None:
    with pytest.raises(ValueError, match="no image has a known class"):
        summarize_scores(torch.zeros(2, 4), torch.tensor([-1, -1]), NAMES)
    with pytest.raises(ValueError, match=r"must be \(2, 4\)"):
        summarize_scores(torch.zeros(2, 3), torch.tensor([0, 1]), NAMES)


def test_nan_is_not_a_score() -> None:
    scores = torch.eye(4).repeat(2, 1)
    scores[4, 1] = torch.nan
    with pytest.raises(ValueError, match="got NaN for 1 of 8 images"):
        summarize_scores(scores, torch.arange(4).repeat(2), NAMES)
    assert summarize_scores(scores, torch.tensor([0, 1, 2, 3, -1, 1, 2, 3]), NAMES).images == 7, "one is left out"
