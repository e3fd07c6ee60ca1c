"""FB: the factorized bilinear layer, a classifier with pairwise interactions of its inputs."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from covpool._check_tensors import check_floating
from covpool._errors import CovpoolError, check_choice, check_positive_int
from covpool.ops import at_least_float32, in_autocast, outside_autocast, product
from covpool.ops.positions import mean

Compensation = Literal["inverted", "paper", "released"]
COMPENSATIONS: tuple[Compensation, ...] = ("inverted", "paper", "released")


class FactorizedBilinear(nn.Module):
    """A linear layer plus a quadratic form of low rank per output, y = bias + w^T x + |F x|^2, averaged over positions.

    F has `rank` rows of `in_features` numbers for each output. Each position is scored on its own, as by a 1x1
    convolution, and the scores are averaged; a vector is one position.

    In training, DropFactor drops each of the `rank` paths of |F x|^2 with probability `drop`, the same paths for all
    outputs and images of a call.

    Args:
        in_features: Channels c.
        out_features: Number of scores.
        rank: Rows of F; the paper uses 20 (CIFAR) and 50 (ImageNet).
        drop: Probability of DropFactor.
        self_terms: True is the paper's formula; False leaves the squares x_i^2 out of |F x|^2, as the released operator
            does, so that only products of different inputs remain.
        compensation: How dropped paths are compensated. With q = 1 - drop, the quadratic term is multiplied in training
            and in evaluation by 1/q and 1 ("inverted"), 1 and q ("paper"), or 1/q and q ("released": both, so that
            outputs in evaluation are q times the expected outputs in training).

    Shape: (b, c), (b, c, ...) or flattened maps (b, c n) -> (b, out_features), in float32 at least, as squares
    overflow in half precision.

    Reference: Li et al., Factorized Bilinear Models for Image Recognition, ICCV 2017.

    >>> layer = FactorizedBilinear(512, 10, rank=4)
    >>> layer(torch.randn(2, 512, 7, 7)).shape, layer.factors.shape
    (torch.Size([2, 10]), torch.Size([10, 4, 512]))
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        rank: int = 20,
        drop: float = 0.5,
        self_terms: bool = True,
        compensation: Compensation = "inverted",
    ) -> None:
        super().__init__()
        for name, value in (("in_features", in_features), ("out_features", out_features), ("rank", rank)):
            check_positive_int(name, value)
        check_choice("compensation", compensation, COMPENSATIONS)
        if not 0 <= drop < 1:
            raise CovpoolError(f"`drop` must be a probability in [0, 1); got {drop}")
        self.in_features = in_features
        self.out_features = out_features
        self.drop = drop
        self.self_terms = self_terms
        self.compensation = compensation
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        self.bias = nn.Parameter(torch.empty(out_features))
        self.factors = nn.Parameter(torch.empty(out_features, rank, in_features))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The released initialization: Gaussian with variance 2 / (entries per output), and zero bias."""
        for parameter in (self.weight, self.factors):
            nn.init.normal_(parameter, std=math.sqrt(2 / math.prod(parameter.shape[1:])))
        nn.init.zeros_(self.bias)

    def forward(
        self,
        x: Tensor,  # (b, c, ...)
        weights: Tensor | None = None,  # (b, n), of the positions; sum to one
    ) -> Tensor:  # (b, out_features)
        check_floating("x", x)
        per_image = math.prod(x.shape[1:])
        if x.ndim < 2 or not per_image or per_image % self.in_features:
            raise CovpoolError(
                f"`x` must have shape (b, {self.in_features}, ...), or flattened maps of {self.in_features} channels; "
                f"got {tuple(x.shape)}"
            )
        x = x.reshape(x.shape[0], self.in_features, per_image // self.in_features).mT  # (b, n, c)
        linear = at_least_float32(_linear(mean(x, weights), self.weight)) + self.bias
        paths = self._paths(x, weights) * self._path_scale()
        return linear + paths.sum(2)

    def _paths(self, x: Tensor, weights: Tensor | None) -> Tensor:
        """(b, n, c) -> (b, out_features, rank): the mean over positions of each (f^T x)^2, in float32 at least."""
        rows = self.factors.flatten(0, 1)  # (o k, c)
        responses = at_least_float32(_linear(x, rows))  # (b, n, o k)
        paths = mean(responses.square(), weights)
        if not self.self_terms:
            with outside_autocast(x):
                squares = mean(at_least_float32(x).square(), weights)
                paths = paths - _linear(squares, at_least_float32(rows).square())
        return paths.unflatten(1, self.factors.shape[:2])

    def _path_scale(self) -> Tensor | float:
        """The factor of each path: DropFactor in training (rank), a number otherwise."""
        keep = 1 - self.drop
        if not self.training:
            return 1.0 if self.compensation == "inverted" else keep
        if not self.drop:
            return 1.0
        kept = torch.empty_like(self.factors[0, :, 0], dtype=torch.float32).bernoulli_(keep)
        return kept if self.compensation == "paper" else kept / keep

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, rank={self.factors.shape[1]}, "
            f"drop={self.drop}, self_terms={self.self_terms}, compensation={self.compensation!r}"
        )


def _linear(
    x: Tensor,  # (..., c)
    weight: Tensor,  # (o, c)
) -> Tensor:  # (..., o)
    """x weight^T; outside autocast, its backward pass stays outside autocast too."""
    if in_autocast(x):
        return nn.functional.linear(x, weight)
    return product(x.flatten(0, -2), weight.mT).unflatten(0, x.shape[:-1])
