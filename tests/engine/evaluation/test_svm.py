"""SVMs against scikit-learn's solver and against a margin known from geometry."""

import pytest
import torch
from sklearn.svm import LinearSVC
from torch import Tensor

from covpool.engine.evaluation._svm import LinearSVM, fit_svm


def data(n: int, d: int, classes: int = 3, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    targets = torch.arange(n) % classes
    z = torch.randn(n, d, generator=generator, dtype=torch.float64)
    z += 2 * torch.nn.functional.one_hot(targets, d)
    return torch.nn.functional.normalize(z), targets


def oracle(z: Tensor, targets: Tensor, c: float) -> LinearSVM:
    svm = LinearSVC(C=c, loss="hinge", tol=1e-10, max_iter=1_000_000).fit(z.numpy(), targets.numpy())
    return LinearSVM(torch.from_numpy(svm.coef_), torch.from_numpy(svm.intercept_))


def objective(svm: LinearSVM, z: Tensor, targets: Tensor, c: float) -> Tensor:
    signs = 2.0 * torch.nn.functional.one_hot(targets) - 1
    margins = (1 - signs * svm.scores(z)).clamp(min=0).sum(0)
    return (svm.weights.square().sum(1) + svm.bias.square()) / 2 + c * margins


@pytest.mark.parametrize("c", [0.1, 1.0, 10.0])
def test_dual_solution_is_that_of_liblinear(c: float, monkeypatch: pytest.MonkeyPatch) -> None:
    # 90 images make several blocks, the last one smaller.
    monkeypatch.setattr("covpool.engine.evaluation._svm.BLOCK", 32)
    monkeypatch.setattr("covpool.engine.evaluation._svm.ROWS", 40)
    z, targets = data(90, 120)
    svm = fit_svm(z, targets, c=c, tolerance=1e-9, max_epochs=20_000)
    expected = oracle(z, targets, c)
    assert torch.allclose(svm.weights, expected.weights, atol=2e-4) and torch.allclose(
        svm.bias, expected.bias, atol=2e-4
    )
    assert torch.all(objective(svm, z, targets, c) <= objective(expected, z, targets, c) * (1 + 1e-7))


def test_the_default_tolerance_bounds_the_objective() -> None:
    z, targets = data(150, 200, seed=1)
    found = objective(fit_svm(z, targets), z, targets, 1.0)
    best = objective(oracle(z, targets, 1.0), z, targets, 1.0)
    assert torch.all(found <= best * 1.001)


def test_more_images_than_features() -> None:
    z, targets = data(200, 10)
    svm, expected = fit_svm(z, targets, tolerance=1e-8, max_epochs=100_000), oracle(z, targets, 1.0)
    assert torch.allclose(svm.scores(z), expected.scores(z), atol=1e-3)


def test_the_widest_margin_between_two_points() -> None:
    z = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]], dtype=torch.float64)
    svm = fit_svm(z, torch.tensor([0, 1]), c=1e3, tolerance=1e-10)
    direction = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    assert torch.allclose(svm.weights, torch.stack((direction, -direction))) and torch.allclose(svm.bias, svm.bias * 0)


def test_calibration_maps_the_medians_to_zero_and_one() -> None:
    z, targets = data(60, 80)
    svm = fit_svm(z, targets).calibrated(z, targets)
    for label, column in enumerate(svm.scores(z).T):
        assert column[targets == label].median().item() == pytest.approx(1)
        assert column[targets != label].median().item() == pytest.approx(0, abs=1e-9)


def test_a_class_without_images_is_refused() -> None:
    with pytest.raises(ValueError, match=r"there is none of the targets \[1\]"):
        fit_svm(torch.randn(3, 4), torch.tensor([0, 2, 2]))
    with pytest.raises(ValueError, match=r"there is none of the targets \[2\]"):
        fit_svm(torch.randn(3, 4), torch.tensor([0, 1, 1]), classes=3)


def test_one_class_is_refused() -> None:
    with pytest.raises(ValueError, match="at least two classes"):
        fit_svm(torch.randn(3, 4), torch.tensor([0, 0, 0]))


def test_no_convergence_gives_a_warning() -> None:
    z, targets = torch.randn(30, 60, generator=torch.Generator().manual_seed(0)), torch.arange(30) % 3
    with pytest.warns(UserWarning, match=r"did not converge: the gap is .* after 1 passes"):
        fit_svm(z, targets, tolerance=1e-12, max_epochs=1)


def test_progress_is_reported() -> None:
    z, targets = data(30, 40)
    seen: list[tuple[int, float]] = []
    fit_svm(z, targets, on_epoch=lambda epoch, gap: seen.append((epoch, gap)))
    assert [epoch for epoch, _ in seen] == list(range(1, len(seen) + 1)) and seen[-1][1] <= 1e-3
