"""Squared distances of features from centres, by one matrix product."""

from torch import Tensor

from covpool.ops.precision import full_precision, product


@full_precision
def squared_distances(
    x: Tensor,  # (..., n, c)
    centers: Tensor,  # (k, c)
) -> Tensor:  # (..., n, k)
    """|x_i - c_k|^2 = |x_i - m|^2 - 2 (x_i - m).(c_k - m) + |c_k - m|^2, with m the mean of the centres.

    Any m gives the same result. Without it, a large offset common to features and centres would leave only round-off in
    the difference of its squares. A distance far below |x_i - m| can still be slightly negative.

    Shape: (..., n, c), (k, c) -> (..., n, k).

    >>> import torch
    >>> squared_distances(torch.tensor([[1., 1.]]), torch.tensor([[1., 1.], [4., 5.]])).tolist()
    [[0.0, 25.0]]
    """
    m = centers.detach().mean(0)
    x, centers = x - m, centers - m
    dots = product(x.reshape(-1, x.shape[-1]), centers.mT).reshape(*x.shape[:-1], len(centers))
    return (x * x).sum(-1, keepdim=True) + (centers * centers).sum(-1) - 2 * dots
