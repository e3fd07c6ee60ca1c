"""One-vs-all linear SVMs on representations, the classifier of the paper's fine-grained protocol.

    min over w, b of (|w|^2 + b^2) / 2 + C sum_i max(0, 1 - y_i (w x_i + b))        for every class, y = +1 or -1

With fewer images than features, all classes are solved together in the dual on one Gram matrix. The images of a block
are optimized one after another, each for all classes at once; one matrix product then updates all other images.
"""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from covpool._errors import CovpoolError, CovpoolWarning, require
from covpool.engine.classifiers import LinearClassifier

BLOCK = 128  # images optimized between two products with the Gram matrix
PASSES = 4  # passes over the images of a block
ROWS = 2048  # rows of the Gram matrix computed at a time


class LinearSVM(LinearClassifier):
    """One linear classifier per class."""

    def calibrated(self, z: Tensor, targets: Tensor) -> "LinearSVM":
        """Rescale each class so that its median scores on z are 1 for the class and 0 for the others.

        A class whose medians are in the opposite order stays unscaled.
        """
        scores = self.scores(z)
        slopes, offsets = [], []
        for target, column in enumerate(scores.T):
            positive = targets == target
            high, low = column[positive].median(), column[~positive].median()
            usable = high > low
            slope = torch.where(usable, 1 / (high - low), 1.0)
            slopes.append(slope)
            offsets.append(torch.where(usable, -low * slope, 0.0))
        slope = torch.stack(slopes)
        return LinearSVM(self.weights * slope[:, None], self.bias * slope + torch.stack(offsets))


def fit_svm(
    z: Tensor,  # (n, d)
    targets: Tensor,  # (n,)
    *,
    classes: int | None = None,
    c: float = 1.0,
    tolerance: float = 1e-3,
    max_epochs: int = 1000,
    on_epoch: Callable[[int, float], None] | None = None,
) -> LinearSVM:
    """Train one SVM per class, with hinge loss and the bias penalized like the weights.

    Args:
        z: Representations; the protocol has them at unit length.
        targets: Targets 0 ... k - 1, each present.
        classes: The number of classes k; None = the largest target plus one.
        c: Weight of the hinge loss.
        tolerance: Relative duality gap at which a class is solved; liblinear's stopping criterion if n >= d.
        max_epochs: Largest number of passes over all blocks.
        on_epoch: Called after each pass with its number and the largest gap.

    >>> z = torch.tensor([[2.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    >>> fit_svm(z, torch.tensor([0, 1, 0])).scores(z).argmax(1).tolist()
    [0, 1, 0]
    """
    classes = classes or int(targets.max()) + 1
    if missing := sorted(set(range(classes)) - set(targets.tolist())):
        raise CovpoolError(
            f"an SVM needs a readable training image of every class; there is none of the targets "
            f"{missing[:10]}: repair its images, or leave the class out"
        )
    if classes < 2:
        raise CovpoolError("an SVM needs at least two classes; got one")
    if z.shape[0] >= z.shape[1]:
        return _by_liblinear(z, targets, c, tolerance, max_epochs)
    signs = torch.where(targets[:, None] == torch.arange(classes), 1.0, -1.0).to(z.dtype)
    beta = _solve_dual(_gram(z), signs, c, tolerance, max_epochs, on_epoch)
    return LinearSVM(beta.T @ z, beta.sum(0))


def _gram(z: Tensor) -> Tensor:  # (n, d) -> (n, n)
    """z z^T + 1: the bias is a constant feature. Only one triangle is computed."""
    gram = z.new_empty(len(z), len(z))
    for start in range(0, len(z), ROWS):
        rows = z[start : start + ROWS] @ z[start:].T
        gram[start : start + ROWS, start:] = rows
        gram[start:, start : start + ROWS] = rows.T
    return gram.add_(1.0)


def _solve_dual(
    gram: Tensor, signs: Tensor, c: float, tolerance: float, max_epochs: int,
    on_epoch: Callable[[int, float], None] | None,
) -> Tensor:  # fmt: skip
    """Solve the dual for beta = alpha y (n, classes) by block coordinate ascent."""
    beta, outputs = torch.zeros_like(signs), torch.zeros_like(signs)  # outputs = gram beta
    generator, gap = torch.Generator().manual_seed(0), 1.0
    for epoch in range(1, max_epochs + 1):
        for block in torch.randperm(len(gram), generator=generator).split(BLOCK):
            rows = gram[block]  # the same as the columns, and contiguous
            updated = _ascend(rows[:, block], signs[block], beta[block], outputs[block], c)
            outputs += rows.T @ (updated - beta[block])
            beta[block] = updated
        gap = _largest_gap(beta, outputs, signs, c)
        if on_epoch is not None:
            on_epoch(epoch, gap)
        if gap <= tolerance:
            return beta
    message = f"the SVMs did not converge: the gap is {gap:.1e} after {max_epochs} passes"
    warnings.warn(message, CovpoolWarning, stacklevel=3)
    return beta


def _ascend(gram: Tensor, signs: Tensor, beta: Tensor, outputs: Tensor, c: float) -> Tensor:
    """Optimize the images of a block one after another, each for all classes, `PASSES` times.

    Works in place on `beta` and `outputs`, which are copies of the block's rows, and returns `beta`.
    """
    low, high = c * signs.clamp(max=0), c * signs.clamp(min=0)  # 0 <= alpha = beta y <= c
    for j in [*range(len(gram))] * PASSES:
        updated = torch.clamp(beta[j] + (signs[j] - outputs[j]) / gram[j, j], low[j], high[j])
        outputs.addr_(gram[j], updated - beta[j])
        beta[j] = updated
    return beta


def _largest_gap(beta: Tensor, outputs: Tensor, signs: Tensor, c: float) -> float:
    """The largest duality gap over the classes, relative to the primal objective."""
    quadratic = (beta * outputs).sum(0)
    primal = quadratic / 2 + c * (1 - signs * outputs).clamp(min=0).sum(0)
    dual = (beta * signs).sum(0) - quadratic / 2
    return float(((primal - dual) / primal).max())


def _by_liblinear(z: Tensor, targets: Tensor, c: float, tolerance: float, max_epochs: int) -> LinearSVM:
    """Solve the primal with scikit-learn, which is faster with more images than features."""
    svm = require("sklearn.svm", "train").LinearSVC(
        C=c, loss="hinge", tol=tolerance, max_iter=max_epochs, random_state=0
    )
    weights, bias = [], []
    for target in range(int(targets.max()) + 1):
        svm.fit(z.numpy(), (targets == target).numpy())
        weights.append(torch.from_numpy(svm.coef_[0]))
        bias.append(float(svm.intercept_[0]))
    return LinearSVM(torch.stack(weights).to(z.dtype), torch.tensor(bias, dtype=z.dtype))
