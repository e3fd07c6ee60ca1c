"""One-vs-all linear SVMs of pooled features, the classifier of the paper's fine-grained protocol.

    min over w, b of (|w|^2 + b^2) / 2 + C sum_i max(0, 1 - y_i (w x_i + b))        for every class, y = +1 or -1

With fewer images than features all classes are solved together in the dual on one Gram matrix: a block of images at a
time is optimised one image after another, for all classes at once, and its effect on the others is one product.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from covpool._check import require
from covpool._errors import CovpoolError

BLOCK = 128  # images optimised between two products with the Gram matrix
PASSES = 4  # over them
ROWS = 2048  # of the Gram matrix computed at a time


@dataclass(frozen=True)
class LinearSVM:
    """A linear classifier per class: scores = z weights^T + bias."""

    weights: Tensor  # (classes, d)
    bias: Tensor  # (classes,)

    def scores(self, z: Tensor) -> Tensor:  # (n, d) -> (n, classes)
        return z @ self.weights.T + self.bias

    def calibrated(self, z: Tensor, targets: Tensor) -> "LinearSVM":
        """The same, each class rescaled so that the medians of its positive and negative scores on z are 1 and 0.

        A class whose medians do not lie in this order is left as it is.
        """
        scores = self.scores(z)
        slopes, offsets = [], []
        for label, column in enumerate(scores.T):
            positive = targets == label
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
    """Train one SVM per class (hinge loss, bias penalised like the weights).

    Args:
        z: features, by protocol of unit length.
        targets: classes 0 ... k - 1, each present.
        classes: k; None = as many as the targets tell of.
        c: the price of a violated margin.
        tolerance: relative duality gap at which a class counts as solved (liblinear's own measure where n >= d).
        max_epochs: rounds over the images, each image being optimised a few times in one.
        on_epoch: called with the number of rounds and the largest gap.

    >>> z = torch.tensor([[2.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    >>> fit_svm(z, torch.tensor([0, 1, 0])).scores(z).argmax(1).tolist()
    [0, 1, 0]
    """
    classes = classes or int(targets.max()) + 1
    if missing := sorted(set(range(classes)) - set(targets.tolist())):
        raise CovpoolError(
            f"every class needs an image that can be read to train an SVM; there is none of {missing[:10]} "
            "(counted from 0): mend its pictures, or leave the class out"
        )
    if classes < 2:
        raise CovpoolError("an SVM needs two classes or more; there is one")
    if z.shape[0] >= z.shape[1]:
        return _by_liblinear(z, targets, c, tolerance, max_epochs)
    signs = torch.where(targets[:, None] == torch.arange(classes), 1.0, -1.0).to(z.dtype)
    beta = _solve_dual(_gram(z), signs, c, tolerance, max_epochs, on_epoch)
    return LinearSVM(beta.T @ z, beta.sum(0))


def _gram(z: Tensor) -> Tensor:  # (n, d) -> (n, n)
    """z z^T + 1, the bias as a constant feature; one half is computed, the other is its mirror image."""
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
    """beta = alpha y (n, classes) of the dual, by block coordinate ascent."""
    beta, outputs = torch.zeros_like(signs), torch.zeros_like(signs)  # outputs = gram beta
    generator, gap = torch.Generator().manual_seed(0), 1.0
    for epoch in range(1, max_epochs + 1):
        for block in torch.randperm(len(gram), generator=generator).split(BLOCK):
            rows = gram[block]  # by symmetry the columns too, and contiguous
            updated = _ascend(rows[:, block], signs[block], beta[block], outputs[block], c)
            outputs += rows.T @ (updated - beta[block])
            beta[block] = updated
        gap = _largest_gap(beta, outputs, signs, c)
        if on_epoch is not None:
            on_epoch(epoch, gap)
        if gap <= tolerance:
            return beta
    warnings.warn(f"the SVMs are not solved: after {max_epochs} rounds a gap of {gap:.1e} is left", stacklevel=3)
    return beta


def _ascend(gram: Tensor, signs: Tensor, beta: Tensor, outputs: Tensor, c: float) -> Tensor:
    """Optimise the images of a block one after another, each for all classes, `PASSES` times; returns their beta.

    It takes `beta` and `outputs` of the block as copies, and works in them.
    """
    low, high = c * signs.clamp(max=0), c * signs.clamp(min=0)  # 0 <= alpha = beta y <= c
    for j in [*range(len(gram))] * PASSES:
        updated = torch.clamp(beta[j] + (signs[j] - outputs[j]) / gram[j, j], low[j], high[j])
        outputs.addr_(gram[j], updated - beta[j])
        beta[j] = updated
    return beta


def _largest_gap(beta: Tensor, outputs: Tensor, signs: Tensor, c: float) -> float:
    """The largest duality gap of a class, relative to its primal objective."""
    quadratic = (beta * outputs).sum(0)
    primal = quadratic / 2 + c * (1 - signs * outputs).clamp(min=0).sum(0)
    dual = (beta * signs).sum(0) - quadratic / 2
    return float(((primal - dual) / primal).max())


def _by_liblinear(z: Tensor, targets: Tensor, c: float, tolerance: float, max_epochs: int) -> LinearSVM:
    """scikit-learn's solver, on the features themselves: right for more images than features."""
    svm = require("sklearn.svm", "train").LinearSVC(
        C=c, loss="hinge", tol=tolerance, max_iter=max_epochs, random_state=0
    )
    weights, bias = [], []
    for labels in _one_against_all(targets):
        svm.fit(z.numpy(), labels.numpy())
        weights.append(torch.from_numpy(svm.coef_[0]))
        bias.append(float(svm.intercept_[0]))
    return LinearSVM(torch.stack(weights).to(z.dtype), torch.tensor(bias, dtype=z.dtype))


def _one_against_all(targets: Tensor) -> Iterator[Tensor]:
    for label in range(int(targets.max()) + 1):
        yield (targets == label).long()
