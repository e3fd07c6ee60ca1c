"""Sums of softly assigned residuals about centres (VLAD), without forming the residuals."""

from torch import Tensor

from covpool.ops.precision import full_precision, product


@full_precision
def residual_sums(
    x: Tensor,  # (b, n, c)
    assignment: Tensor,  # (b, n, k)
    centers: Tensor,  # (k, c)
) -> Tensor:  # (b, k, c)
    """V_k = sum_i a_ik (x_i - c_k) = (A^T X)_k - (sum_i a_ik) c_k.

    The (b, n, k, c) residuals are never formed. The mean of the centres is first subtracted from both: it changes
    no residual, and it removes a common offset that would cost accuracy in the difference.

    Shape: (b, n, c), (b, n, k), (k, c) -> (b, k, c).

    >>> import torch
    >>> x, a = torch.tensor([[[1., 0.], [3., 0.]]]), torch.tensor([[[1., 0.], [0.5, 0.5]]])
    >>> residual_sums(x, a, torch.tensor([[1., 0.], [3., 4.]])).tolist()
    [[[1.0, 0.0], [0.0, -2.0]]]
    """
    m = centers.detach().mean(0)
    return product(assignment.mT, x - m) - assignment.sum(1).unsqueeze(-1) * (centers - m)
