from dataclasses import replace
from pathlib import Path

import pytest
import torch

from covpool.demo import _compare
from covpool.demo._compare import Choice, MethodResult, choose, evaluate, verdict
from covpool.demo._samples import TaskSamples
from covpool.demo._tasks import Task, digits
from covpool.engine.classifiers import CrossValidated, LinearClassifier
from demo.stand_ins import use_stand_ins

RESULT = MethodResult("isqrt", "", 0.6, 0.7, (0.6, 0.8), 0.0, (0.0, 0.0), 1, 1.0)


@pytest.mark.parametrize(
    ("method", "interval", "said"),
    [
        ("isqrt", (0.01, 0.05), "better than average pooling"),
        ("isqrt", (-0.05, -0.01), "worse than average pooling"),
        ("isqrt", (-0.01, 0.05), "no difference beyond the noise"),
        ("isqrt", (0.0, 0.05), "no difference beyond the noise"),
        ("avg", (0.0, 0.0), "the baseline"),
    ],
)
def test_only_differences_beyond_the_noise_are_ranked(method: str, interval: tuple[float, float], said: str) -> None:
    assert verdict(replace(RESULT, method=method, difference_interval=interval)) == said


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    use_stand_ins(tmp_path, monkeypatch)
    return digits()


def test_second_order_wins_where_only_correlations_differ(task: Task) -> None:
    found = evaluate(task, choose(task))
    accuracy = {result.method: result.accuracy for result in found.results}
    assert min(accuracy["cov"], accuracy["isqrt"], accuracy["gaussian"]) >= 0.9
    assert max(accuracy["avg"], accuracy["mean_std"], accuracy["rbf"]) <= 0.85
    low, high = next(r for r in found.results if r.method == "gaussian").difference_interval
    assert 0 < low <= accuracy["gaussian"] - accuracy["avg"] <= high
    assert found.tested == 20


def test_choices_do_not_open_the_test_samples(task: Task) -> None:
    def refuse() -> TaskSamples:
        raise AssertionError("opened")

    closed = replace(task, open_test=refuse, methods=("avg", "gaussian"))
    choices = choose(closed)
    assert [choice.method for choice in choices] == ["avg", "gaussian"]
    with pytest.raises(AssertionError, match="opened"):
        evaluate(closed, choices)


def test_the_best_setting_in_cross_validation_is_taken(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    fits = []
    fit = _compare.fit_cross_validated

    def record(*arguments: object, **options: object) -> object:
        fits.append(fit(*arguments, **options))  # type: ignore[arg-type]
        return fits[-1]

    monkeypatch.setattr(_compare, "fit_cross_validated", record)
    (choice,) = choose(replace(task, methods=("isqrt",)))
    assert len(fits) == 2 and choice.fit.accuracy == max(found.accuracy for found in fits)


def test_intervals_resample_blocks() -> None:
    """Two blocks, one wholly right and one wholly wrong, say no more than two samples."""
    classifier = LinearClassifier(torch.zeros(2, 3), torch.zeros(2))
    fit = CrossValidated(classifier, 1.0, {1.0: 0.5}, torch.ones(4), 1.0, True)
    choice = Choice("isqrt", "", lambda samples: samples.targets, fit, 0.0)
    correct, baseline = torch.tensor([1.0] * 10 + [0.0] * 10), torch.zeros(20)
    assert _compare._result(choice, correct, baseline, 10).interval == (0.0, 1.0)
    low, high = _compare._result(choice, correct, baseline, 1).difference_interval
    assert 0.2 < low < 0.5 < high < 0.8
