"""Multinomial logistic regression with an l2 penalty, on all vectors at once.

    minimize over W, b:   mean_i w_i loss(W z_i + b, y_i)  +  penalty |W|^2

z are the training vectors, centered and divided by the root of their mean squared length, so that one penalty means the
same for every pool. In scikit-learn's terms, on vectors treated in the same way, C = 1 / (2 n penalty). The problem is
convex: the result depends on no seed, no learning rate and no number of epochs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from covpool._errors import CovpoolError
from covpool.engine.classifiers._coordinates import Coordinates, Rows

TOLERANCE = 1e-4  # largest entry of the gradient at the solution, relative to that at zero weights, in L-BFGS' units
# The same for solutions that only rank penalties, in the coordinates of a triangle. In the units of principal axes it
# would be too coarse: the smallest penalties would seem half a point better than they are.
ON_THE_WAY = 1e-3
ITERATIONS = 1000  # of L-BFGS at most
ROWS = 1024  # vectors that are checked at a time
HISTORY = 10  # pairs that L-BFGS keeps
RESTARTS = 3  # with an empty history, if round-off ends a line search before the tolerance is reached


@dataclass(eq=False)
class LinearClassifier:
    """scores = z weights^T + bias."""

    weights: Tensor  # (classes, d)
    bias: Tensor  # (classes,)

    def scores(self, z: Tensor) -> Tensor:  # (n, d) -> (n, classes)
        """Score vectors; the highest score is the predicted class."""
        return z @ self.weights.T + self.bias


@dataclass(eq=False)
class Solution(LinearClassifier):
    """A classifier in the coordinates it was optimized in."""

    converged: bool = True


class Problem:
    """The regression for some training vectors.

    Args:
        rows: training vectors in the coordinates of `Coordinates`.
        targets: their classes, (n,).
        classes: how many classes there are.
        class_weights: a weight per class, (k,); None weights all images alike.
    """

    def __init__(self, rows: Rows, targets: Tensor, classes: int, class_weights: Tensor | None = None) -> None:
        self.rows, self.targets = rows, targets
        values = rows.values
        self._image_weights = None if class_weights is None else class_weights.to(values)[targets]
        self._zero = Solution(values.new_zeros(classes, values.shape[1]), values.new_zeros(classes))
        self._first_gradient = self._loss_and_gradient(self._zero, 0.0)[1]
        self._squares = None if rows.lower else values.square().mean(0, keepdim=True)  # (1, r)

    def path(self, penalties: Sequence[float]) -> Iterator[tuple[float, Solution]]:
        """Solve for penalties from the largest to the smallest, each starting from the solution before it.

        The solutions are accurate enough to rank the penalties.
        """
        solution = self._zero
        tolerance = ON_THE_WAY if self.rows.lower else TOLERANCE
        for penalty in sorted(penalties, reverse=True):
            solution = self._solve(penalty, solution, tolerance)
            yield penalty, solution

    def solve(self, penalty: float, start: LinearClassifier | None = None) -> Solution:
        """Solve for one penalty to the final tolerance, starting from a classifier in the same coordinates."""
        return self._solve(penalty, start or self._zero, TOLERANCE)

    def _solve(self, penalty: float, start: LinearClassifier, tolerance: float) -> Solution:
        units = self._units(penalty)
        parameters = torch.cat([start.weights.flatten(), start.bias]) / units  # L-BFGS works on one flat vector
        steepest = float((self._first_gradient * units).abs().max())

        def current(converged: bool = False) -> Solution:
            weights, bias = (parameters * units).tensor_split([start.weights.numel()])
            return Solution(weights.view_as(start.weights), bias, converged)

        def closure() -> float:
            loss, gradient = self._loss_and_gradient(current(), penalty)
            parameters.grad = gradient * units
            return float(loss)

        for _ in range(RESTARTS):
            _optimizer(parameters, tolerance * steepest).step(closure)
            gradient = self._loss_and_gradient(current(), penalty)[1] * units
            if bool(gradient.abs().max() <= tolerance * steepest):
                return current(converged=True)
        return current()

    def _units(self, penalty: float) -> Tensor:  # (k r + k,) or (1,)
        """The units in which L-BFGS measures weights and biases: at zero weights, the loss is equally curved along all.

        The coordinates of a triangle are not principal axes, and units for them would not help.
        """
        if self._squares is None:
            return self._first_gradient.new_ones(1)
        classes = len(self._zero.bias)
        weights = (self._squares / classes + 2 * penalty).rsqrt().expand(classes, -1)
        return torch.cat([weights.flatten(), weights.new_full((classes,), classes**0.5)])

    @torch.no_grad()
    def _loss_and_gradient(self, at: Solution, penalty: float) -> tuple[Tensor, Tensor]:
        """The objective, summed in float64, and its gradient as one flat vector."""
        n = len(self.targets)
        logs = (self.rows.times(at.weights) + at.bias).double().log_softmax(1)  # (n, k)
        losses = -logs.gather(1, self.targets[:, None])[:, 0]
        residual = logs.exp_()
        residual[torch.arange(n, device=residual.device), self.targets] -= 1
        if self._image_weights is not None:
            losses = losses * self._image_weights
            residual *= self._image_weights[:, None]
        residual = (residual / n).to(at.weights.dtype)
        loss = losses.mean() + penalty * at.weights.square().sum(dtype=torch.float64)
        gradient = self.rows.weighted(residual).add_(at.weights, alpha=2 * penalty)
        return loss, torch.cat([gradient.flatten(), residual.sum(0)])


def _optimizer(parameters: Tensor, tolerance: float) -> torch.optim.LBFGS:
    return torch.optim.LBFGS(
        [parameters],
        max_iter=ITERATIONS,
        max_eval=2 * ITERATIONS,
        tolerance_grad=tolerance,
        tolerance_change=0.0,
        history_size=HISTORY,
        line_search_fn="strong_wolfe",
    )


def fit_logistic(
    z: Tensor,  # (n, d)
    targets: Tensor,  # (n,)
    *,
    penalty: float,
    classes: int | None = None,
    class_weights: Tensor | None = None,
) -> LinearClassifier:
    """Fit multinomial logistic regression with a given penalty.

    Args:
        z: Training vectors, on the device where the work is done.
        targets: The class of each, from 0 to classes - 1.
        penalty: Weight of |W|^2 beside the mean loss.
        classes: Number of classes; by default as many as occur.
        class_weights: A weight per class, for classes of very different size.

    >>> z = torch.tensor([[2.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    >>> fit_logistic(z, torch.tensor([0, 1, 0]), penalty=1e-3).scores(z).argmax(1).tolist()
    [0, 1, 0]
    """
    count = check_targets(z, targets, classes)
    coordinates = Coordinates.of(z)
    solution = Problem(coordinates.rows, targets, count, class_weights).solve(penalty)
    return LinearClassifier(*coordinates.original(solution.weights, solution.bias))


def check_targets(z: Tensor, targets: Tensor, classes: int | None) -> int:
    """Check the training vectors of a classifier and return the number of classes."""
    if not all(bool(rows.isfinite().all()) for rows in z.split(ROWS)):  # isfinite of all of z would copy it
        raise CovpoolError(
            "the training vectors must be finite; got NaN or infinity: check the features with diagnostics"
        )
    if len(z) != len(targets) or not len(z):
        raise CovpoolError(f"a classifier needs one target per vector; got {len(z)} vectors and {len(targets)} targets")
    found = int(targets.max()) + 1
    count = found if classes is None else classes
    if int(targets.min()) < 0 or found > count:
        raise CovpoolError(f"targets must be from 0 to {count - 1}; got {int(targets.min())} to {found - 1}")
    if count < 2 or bool((targets == targets[0]).all()):
        raise CovpoolError("a classifier needs images of two classes or more; got one")
    return count
