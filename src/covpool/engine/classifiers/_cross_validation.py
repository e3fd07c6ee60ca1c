"""The penalty of a classifier, chosen by cross-validation inside the training set."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from covpool._errors import CovpoolError
from covpool.engine.classifiers._coordinates import Coordinates, Rows
from covpool.engine.classifiers._logistic import LinearClassifier, Problem, check_targets
from covpool.engine.classifiers._temperature import fit_temperature

PENALTIES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
FOLDS = 3


@dataclass(frozen=True, eq=False)
class CrossValidated:
    """A classifier fitted to all training vectors, with the penalty that cross-validation chose.

    Attributes:
        classifier: fitted to all training vectors.
        penalty: the chosen one.
        accuracies: cross-validated accuracy of every penalty, largest penalty first.
        correct: which training images were classified correctly while held out, at the chosen penalty, (n,).
        temperature: what the scores are divided by before the softmax, for probabilities that agree with the accuracy
            on held-out training images.
        converged: whether L-BFGS reached its tolerance in the last fit.
    """

    classifier: LinearClassifier
    penalty: float
    accuracies: dict[float, float]
    correct: Tensor
    temperature: float
    converged: bool

    @property
    def accuracy(self) -> float:
        """Cross-validated accuracy at the chosen penalty."""
        return self.accuracies[self.penalty]

    @property
    def standard_error(self) -> float:
        """Of the cross-validated accuracy."""
        p, n = self.accuracy, len(self.correct)
        return (max(p * (1 - p), 0.25 / n) / n) ** 0.5

    @property
    def calibrated(self) -> LinearClassifier:
        """The classifier with its temperature in the weights: the same classes, and better probabilities."""
        found = self.classifier
        return LinearClassifier(found.weights / self.temperature, found.bias / self.temperature)


def fit_cross_validated(
    z: Tensor,  # (copies n, d)
    targets: Tensor,  # (n,)
    *,
    classes: int | None = None,
    copies: int = 1,
    penalties: Sequence[float] = PENALTIES,
    folds: int = FOLDS,
    class_weights: Tensor | None = None,
) -> CrossValidated:
    """Fit logistic regression with the penalty that is best on held-out training images.

    Every penalty is tried on the same folds. All copies of an image (the image and its flip) are in one fold, and only
    the first copy is scored. Of equally good penalties the largest is taken.

    Args:
        z: Training vectors: those of all images, then of all their flips if there are `copies`.
        targets: The class of each image.
        classes: Number of classes; by default as many as occur.
        copies: How many vectors each image has.
        penalties: Those to try.
        folds: Number of folds.
        class_weights: A weight per class.
    """
    if folds > len(targets):
        raise CovpoolError(f"`folds` must not exceed the number of training images, {len(targets)}; got {folds}")
    every = targets.repeat(copies)
    count = check_targets(z, every, classes)
    coordinates = Coordinates.of(z)
    held_out, means = _cross_validate(coordinates.rows, targets, count, copies, penalties, folds, class_weights)
    correct = {penalty: scores.argmax(1) == targets for penalty, scores in held_out.items()}
    accuracies = {penalty: float(right.double().mean()) for penalty, right in correct.items()}
    best = max(accuracies, key=lambda penalty: (accuracies[penalty], penalty))
    problem = Problem(coordinates.rows, every, count, class_weights)
    solution = problem.solve(best, means[best])
    if not solution.converged:  # near a solution, the short first step of L-BFGS can be lost in round-off
        *_, (_, start) = problem.path([penalty for penalty in accuracies if penalty >= best])
        solution = problem.solve(best, start)
    classifier = LinearClassifier(*coordinates.original(solution.weights, solution.bias))
    temperature = fit_temperature(held_out[best], targets, class_weights)
    return CrossValidated(classifier, best, accuracies, correct[best].cpu(), temperature, solution.converged)


def _cross_validate(
    rows: Rows,
    targets: Tensor,
    classes: int,
    copies: int,
    penalties: Sequence[float],
    folds: int,
    class_weights: Tensor | None,
) -> tuple[dict[float, Tensor], dict[float, LinearClassifier]]:  # by penalty: (n, k); a classifier
    """For every penalty, the scores of the images while held out, and the mean classifier of the folds.

    From the mean, the fit to all images has a short way to go.
    """
    fold_of = assign_folds(targets, folds).to(targets.device)
    zero = rows.values.new_zeros
    held_out = {p: zero(len(targets), classes) for p in sorted(penalties, reverse=True)}
    means = {p: LinearClassifier(zero(classes, rows.values.shape[1]), zero(classes)) for p in held_out}
    for fold in range(folds):
        held = (fold_of == fold).nonzero()[:, 0]
        rest = (fold_of != fold).repeat(copies).nonzero()[:, 0]
        part = rows.part(rest)
        unseen = part.place(rows.values[held])
        problem = Problem(part.rows, targets.repeat(copies)[rest], classes, class_weights)
        for penalty, solution in problem.path(penalties):
            held_out[penalty][held] = solution.scores(unseen)
            means[penalty].weights.add_(part.restore(solution.weights), alpha=1 / folds)
            means[penalty].bias.add_(solution.bias, alpha=1 / folds)
    return held_out, means


def assign_folds(targets: Tensor, folds: int, seed: int = 0) -> Tensor:  # (n,) -> (n,)
    """A fold for every image: each class is spread evenly over the folds, in an order drawn from the seed.

    >>> assign_folds(torch.tensor([0, 0, 0, 1, 1, 1]), 3).sort().values.tolist()
    [0, 0, 1, 1, 2, 2]
    """
    if folds < 2:
        raise CovpoolError(f"cross-validation needs two folds or more; got {folds}")
    smallest = int(targets.bincount()[targets.unique()].min())
    if smallest < 2:
        raise CovpoolError("cross-validation needs two training images or more of every class; a class has one")
    order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(seed))
    order = order[targets.cpu()[order].argsort(stable=True)]  # class by class, shuffled within each
    assigned = torch.empty(len(targets), dtype=torch.int64)
    assigned[order] = torch.arange(len(targets)) % folds
    return assigned
