"""The temperature of probabilities, against scipy."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from torch import Tensor

from covpool.engine.classifiers import fit_cross_validated, fit_logistic
from covpool.engine.classifiers._cross_validation import assign_folds
from covpool.engine.classifiers._temperature import fit_temperature
from covpool.engine.evaluation import calibration_error


def make_scores(n: int, k: int, sharpness: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Scores, and targets drawn from the probabilities at temperature 1 / sharpness."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(n, k, generator=generator, dtype=torch.float64)
    return scores, torch.multinomial((sharpness * scores).softmax(1), 1, generator=generator)[:, 0]


def oracle(scores: Tensor, targets: Tensor, weights: Tensor | None = None, smooth: bool = True) -> float:
    """scipy's minimum of the mean loss on targets that count one more image of unknown class."""
    n, k = scores.shape
    known = np.eye(k)[targets.numpy()]
    wanted = (n * known + 1 / k) / (n + 1) if smooth else known
    w = np.ones(n) if weights is None else weights.numpy()[targets.numpy()]

    def loss(log_scale: float) -> float:
        return float(-(w[:, None] * wanted * log_softmax(np.exp(log_scale) * scores.numpy(), axis=1)).sum() / n)

    found = minimize_scalar(loss, bounds=(-9, 9), method="bounded", options={"xatol": 1e-10})
    return float(np.exp(-found.x))


@pytest.mark.parametrize(("n", "k"), [(6, 2), (50, 3), (400, 10)])
@pytest.mark.parametrize("sharpness", [0.5, 1.0, 20.0])
def test_it_agrees_with_scipy(n: int, k: int, sharpness: float) -> None:
    scores, targets = make_scores(n, k, sharpness)
    assert fit_temperature(scores, targets) == pytest.approx(oracle(scores, targets), rel=1e-5)
    weights = torch.linspace(0.5, 2.0, k, dtype=torch.float64)
    assert fit_temperature(scores, targets, weights) == pytest.approx(oracle(scores, targets, weights), rel=1e-5)


def test_many_images_need_no_smoothing() -> None:
    scores, targets = make_scores(20_000, 5, 3.0)
    found = fit_temperature(scores, targets)
    assert found == pytest.approx(oracle(scores, targets, smooth=False), rel=1e-2) == pytest.approx(1 / 3, rel=5e-2)


def test_scores_in_other_units_have_the_temperature_of_these_units() -> None:
    scores, targets = make_scores(60, 4, 2.0)
    assert fit_temperature(100 * scores, targets) == pytest.approx(100 * fit_temperature(scores, targets))


@pytest.mark.parametrize("correct", [True, False], ids=["all correct", "all wrong"])
def test_few_images_give_no_certainty(correct: bool) -> None:
    """Eighteen of eighteen held-out images are no proof of certainty."""
    targets = torch.arange(18) % 2
    scores = 0.01 * torch.eye(2)[targets if correct else 1 - targets]
    probability = (scores / fit_temperature(scores, targets)).softmax(1).max(1).values
    wanted = torch.full_like(probability, 18.5 / 19 if correct else 0.5)
    torch.testing.assert_close(probability, wanted, atol=1e-4, rtol=0)


def test_equal_scores_have_a_finite_temperature() -> None:
    assert 0 < fit_temperature(torch.zeros(4, 3), torch.tensor([0, 1, 2, 0])) < 1e5


def test_the_temperature_is_that_of_the_held_out_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covpool.engine.classifiers._logistic.TOLERANCE", 1e-8)
    monkeypatch.setattr("covpool.engine.classifiers._logistic.ON_THE_WAY", 1e-8)
    z, targets, _, _ = blobs()
    found = fit_cross_validated(z, targets, penalties=(1e-1,))
    fold, scores = assign_folds(targets, 3), torch.empty(len(z), 3, dtype=z.dtype)
    mean, scale = z.mean(0), (z - z.mean(0)).square().sum(1).mean().sqrt()
    for held in (fold == i for i in range(3)):  # one penalty means the same in the units of all vectors
        part = (z - mean) / scale
        own = (part[~held] - part[~held].mean(0)).square().sum(1).mean()
        scores[held] = fit_logistic(part[~held], targets[~held], penalty=0.1 / float(own)).scores(part[held])
    assert found.temperature == pytest.approx(oracle(scores, targets), rel=1e-3)


def test_probabilities_are_calibrated_and_classes_unchanged() -> None:
    z, targets, unseen, truth = blobs()
    found = fit_cross_validated(z, targets, penalties=(1e-1,))
    plain, scaled = found.classifier.scores(unseen), found.calibrated.scores(unseen)
    assert torch.equal(plain.argsort(1), scaled.argsort(1))
    torch.testing.assert_close(scaled * found.temperature, plain)
    before, after = calibration_error(plain, truth), calibration_error(scaled, truth)
    assert before > 0.2 and after < 0.06


def blobs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Vectors of three classes, half of them for training."""
    generator = torch.Generator().manual_seed(5)
    targets = torch.arange(1200) % 3
    centres = torch.randn(3, 40, generator=generator, dtype=torch.float64)
    z = centres[targets] + 2 * torch.randn(1200, 40, generator=generator, dtype=torch.float64)
    return z[:600], targets[:600], z[600:], targets[600:]
