"""A linear classifier: what every solver in this package returns."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class LinearClassifier:
    """scores = z weights^T + bias."""

    weights: Tensor  # (classes, d)
    bias: Tensor  # (classes,)

    def scores(self, z: Tensor) -> Tensor:  # (n, d) -> (n, classes)
        """Score vectors; the highest score is the predicted class."""
        return z @ self.weights.T + self.bias
