"""Logistic regression against scikit-learn, primal and through the Gram matrix."""

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from covpool import CovpoolError
from covpool.engine.classifiers import fit_cross_validated, fit_logistic
from covpool.engine.classifiers._coordinates import Coordinates, Rows, cholesky_in_place
from covpool.engine.classifiers._cross_validation import assign_folds


def make_vectors(n: int, d: int, classes: int = 3, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n + d)
    targets = torch.arange(n) % classes
    centres = torch.randn(classes, d, generator=generator, dtype=torch.float64)
    noise = torch.randn(n, d, generator=generator, dtype=torch.float64)
    return (5 + 0.7 * centres[targets] + 2 * noise).to(dtype), targets


def oracle(z: Tensor, targets: Tensor, penalty: float, weights: dict[int, float] | None = None) -> LogisticRegression:
    """scikit-learn on vectors that are centred and scaled as the docstring of the module says."""
    centred = z.double() - z.double().mean(0)
    centred = centred / centred.square().sum(1).mean().sqrt()
    c = 1 / (2 * len(z) * penalty)
    return LogisticRegression(C=c, tol=1e-10, max_iter=20_000, class_weight=weights).fit(
        centred.numpy(), targets.numpy()
    )


def oracle_probabilities(model: LogisticRegression, z: Tensor) -> Tensor:
    centred = z.double() - z.double().mean(0)
    centred = centred / centred.square().sum(1).mean().sqrt()
    return torch.from_numpy(model.predict_proba(centred.numpy()))


@pytest.mark.parametrize(
    ("shape", "rotated"), [((60, 8), 8), ((60, 8), 7), ((40, 200), 8)], ids=["rotated", "not rotated", "gram"]
)
@pytest.mark.parametrize("penalty", [1e-1, 1e-3, 1e-5])
def test_it_agrees_with_scikit_learn(
    shape: tuple[int, int], rotated: int, penalty: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covpool.engine.classifiers._logistic.TOLERANCE", 1e-9)
    monkeypatch.setattr("covpool.engine.classifiers._coordinates.ROTATED", rotated)
    monkeypatch.setattr("covpool.engine.classifiers._coordinates.COLUMNS", 64)  # several blocks, and a smaller last one
    z, targets = make_vectors(*shape)
    ours = fit_logistic(z, targets, penalty=penalty).scores(z).softmax(1)
    torch.testing.assert_close(ours, oracle_probabilities(oracle(z, targets, penalty), z), atol=2e-6, rtol=0)


def test_class_weights_agree_with_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covpool.engine.classifiers._logistic.TOLERANCE", 1e-9)
    z, targets = make_vectors(50, 120)
    weights = torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64)
    ours = fit_logistic(z, targets, penalty=1e-3, class_weights=weights).scores(z).softmax(1)
    model = oracle(z, targets, 1e-3, dict(enumerate(weights.tolist())))
    torch.testing.assert_close(ours, oracle_probabilities(model, z), atol=2e-6, rtol=0)


@pytest.mark.parametrize("shape", [(60, 8), (40, 200)], ids=["primal", "gram"])
def test_float32_is_close_to_float64(shape: tuple[int, int]) -> None:
    z, targets = make_vectors(*shape)
    exact = fit_logistic(z, targets, penalty=1e-4).scores(z).softmax(1)
    single = fit_logistic(z.float(), targets, penalty=1e-4).scores(z.float()).softmax(1)
    torch.testing.assert_close(single.double(), exact, atol=2e-3, rtol=0)


def test_repeated_and_equal_vectors_are_no_problem() -> None:
    z, targets = make_vectors(20, 100, dtype=torch.float32)
    twice = fit_logistic(z.repeat(2, 1), targets.repeat(2), penalty=1e-3)
    torch.testing.assert_close(twice.scores(z), fit_logistic(z, targets, penalty=1e-3).scores(z), atol=2e-2, rtol=1e-2)
    equal = fit_logistic(torch.ones(6, 10), torch.arange(6) % 3, penalty=1e-3)
    assert equal.scores(torch.ones(1, 10)).isfinite().all()


def test_coordinates_keep_inner_products() -> None:
    z, _ = make_vectors(30, 90)
    coordinates = Coordinates.of(z)
    centred = (z - coordinates.mean) / coordinates.scale
    rows = coordinates.rows.values
    torch.testing.assert_close(rows @ rows.mT, centred @ centred.mT, atol=1e-10, rtol=0)


def test_all_copies_of_an_image_share_a_fold() -> None:
    """Flips that equal their images would make every held-out image known, and every penalty perfect."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(60, 500, generator=generator)  # noise: nothing can be learned
    targets = torch.arange(60) % 2
    found = fit_cross_validated(z.repeat(2, 1), targets, copies=2, penalties=(1e-2, 1e-4))
    assert found.accuracy < 0.7
    assert found.classifier.scores(z).argmax(1).eq(targets).all()


def test_the_penalty_is_chosen_on_held_out_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covpool.engine.classifiers._logistic.TOLERANCE", 1e-8)
    monkeypatch.setattr("covpool.engine.classifiers._logistic.ON_THE_WAY", 1e-8)
    z, targets = make_vectors(60, 150)
    z = z + 3 * torch.randn(z.shape, generator=torch.Generator().manual_seed(1), dtype=z.dtype)
    penalties = (1e1, 1e-1, 1e-3)
    found = fit_cross_validated(z, targets, penalties=penalties)
    assert found.accuracies == pytest.approx(oracle_accuracies(z, targets, penalties))
    assert found.accuracy == max(found.accuracies.values())
    assert found.correct.double().mean() == pytest.approx(found.accuracy)
    alone = fit_logistic(z, targets, penalty=found.penalty)
    torch.testing.assert_close(found.classifier.scores(z), alone.scores(z), atol=1e-5, rtol=1e-5)


def oracle_accuracies(z: Tensor, targets: Tensor, penalties: tuple[float, ...]) -> dict[float, float]:
    """Cross-validation by scikit-learn on the same folds."""
    centred = z - z.mean(0)
    centred = (centred / centred.square().sum(1).mean().sqrt()).numpy()
    fold, labels = assign_folds(targets, 3).numpy(), targets.numpy()
    found = {}
    for penalty in penalties:
        right = 0
        for held in (fold == i for i in range(3)):
            c = 1 / (2 * int((~held).sum()) * penalty)
            model = LogisticRegression(C=c, tol=1e-10, max_iter=20_000).fit(centred[~held], labels[~held])
            right += int((model.predict(centred[held]) == labels[held]).sum())
        found[penalty] = right / len(labels)
    return found


def test_folds_are_stratified() -> None:
    targets = torch.tensor([0] * 9 + [1] * 6 + [2] * 3)
    fold = assign_folds(targets, 3)
    for label, each in ((0, 3), (1, 2), (2, 1)):
        assert fold[targets == label].bincount(minlength=3).tolist() == [each] * 3


@pytest.mark.parametrize(
    ("targets", "said"),
    [([0, 0, 0, 0], "two classes"), ([0, 1, 0, 7], "from 0 to 2"), ([0, 1], "one target per vector")],
)
def test_mistakes_are_named(targets: list[int], said: str) -> None:
    with pytest.raises(CovpoolError, match=said):
        fit_logistic(torch.randn(4, 3), torch.tensor(targets), penalty=1.0, classes=3)


def test_a_class_of_one_image_cannot_be_cross_validated() -> None:
    with pytest.raises(CovpoolError, match="two training images"):
        fit_cross_validated(torch.randn(4, 3), torch.tensor([0, 0, 0, 1]))


def test_vectors_must_be_finite() -> None:
    with pytest.raises(CovpoolError, match="finite"):
        fit_logistic(torch.full((4, 3), torch.nan), torch.tensor([0, 1, 0, 1]), penalty=1.0)


def test_vectors_that_are_almost_alike_can_be_fitted() -> None:
    generator = torch.Generator().manual_seed(0)
    targets = torch.arange(200) % 4
    centres = 10 * torch.rand(4, 2000, generator=generator)
    z = centres[targets] + 1e-4 * torch.randn(200, 2000, generator=generator)
    found = fit_cross_validated(z, targets)
    assert found.accuracy == 1.0 and (found.classifier.scores(z).argmax(1) == targets).all()


@pytest.mark.parametrize("n", [1, 5, 8, 21])
def test_the_blocked_factor_is_the_cholesky_factor(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covpool.engine.classifiers._coordinates.ROWS", 4)
    x = torch.randn(n, n + 3, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    a = x @ x.mT
    torch.testing.assert_close(cholesky_in_place(a.clone()), torch.linalg.cholesky(a), atol=1e-12, rtol=1e-12)


def test_products_with_a_triangle_skip_only_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covpool.engine.classifiers._coordinates.TRIANGLE_ROWS", 4)
    values, weights, residual = torch.randn(10, 10).tril(), torch.randn(3, 10), torch.randn(10, 3)
    rows = Rows(values, lower=True)
    torch.testing.assert_close(rows.times(weights), values @ weights.mT)
    torch.testing.assert_close(rows.weighted(residual), residual.mT @ values)


@pytest.mark.parametrize("shape", [(12, 30), (30, 5)], ids=["triangle", "vectors"])
def test_a_part_keeps_scores_of_its_own_and_of_other_vectors(shape: tuple[int, int]) -> None:
    """A classifier of a part is a combination of its vectors, so that nothing else of other vectors matters."""
    z, _ = make_vectors(*shape)
    rows = Coordinates.of(z).rows
    chosen, other = torch.arange(0, len(z), 2), torch.arange(1, len(z), 2)
    part = rows.part(chosen)
    weights = torch.randn(3, part.rows.values.shape[1], dtype=z.dtype)
    restored = part.restore(weights)
    torch.testing.assert_close(rows.values[chosen] @ restored.mT, part.rows.values @ weights.mT)
    torch.testing.assert_close(rows.values[other] @ restored.mT, part.place(rows.values[other]) @ weights.mT)


def test_axes_of_very_different_length_are_no_problem() -> None:
    """Features of networks are like this: without units of their own, L-BFGS stops before it reaches its tolerance."""
    z, targets = make_vectors(300, 40, classes=5, dtype=torch.float32)
    lengths = torch.logspace(0, -5, 40)
    axes = torch.linalg.qr(torch.randn(40, 40, generator=torch.Generator().manual_seed(0)))[0]
    found = fit_cross_validated(z * lengths @ axes, targets, penalties=(1e-6, 1e-8))
    assert found.converged
