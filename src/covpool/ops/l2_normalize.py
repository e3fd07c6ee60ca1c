"""Vectors scaled to unit length: exactly, or by a smooth function as in MatConvNet's normalization layers."""

import torch
from torch import Tensor

from covpool._check_tensors import check_floating
from covpool.ops.elementary import one_if_zero
from covpool.ops.precision import full_precision


@full_precision
def l2_normalize(
    x: Tensor,  # (..., c)
    *,
    eps: float = 1e-12,
) -> Tensor:  # (..., c)
    """x / sqrt(|x|^2 + eps).

    Args:
        x: Vectors.
        eps: Constant in the unit of x squared. A vector far shorter than sqrt(eps) is not scaled to unit length but
            stays near zero. Round-off around a zero vector stays small, and the slope there is 1 / sqrt(eps).

    Shape: (..., c) -> (..., c).

    Reference: Relja/netvlad, which has eps = 1e-12 under the root.

    >>> import torch
    >>> l2_normalize(torch.tensor([[3., 4.], [0., 0.]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    check_floating("x", x)
    # Not |x|^2 + eps, because the ONNX exporter drops a summand of 1e-12 as zero.
    return x / (eps**0.5 * ((x * x).sum(-1, keepdim=True) / eps + 1).sqrt())


def unit_length(
    x: Tensor,  # (..., c)
) -> Tensor:  # (..., c)
    """x / |x| at any scale without overflow. A zero vector stays zero, with a gradient that is passed on unchanged.

    >>> import torch
    >>> unit_length(torch.tensor([[0., -3e30], [0., 0.]])).tolist()
    [[0.0, -1.0], [0.0, 0.0]]
    """
    x = x / one_if_zero(x.detach().abs().amax(-1, keepdim=True))
    return x / one_if_zero(torch.linalg.vector_norm(x, dim=-1, keepdim=True))
