"""Vectors brought to unit length by a smooth function, as MatConvNet's normalisation layers do it."""

from torch import Tensor

from covpool._check_tensors import check_floating
from covpool.ops.precision import full_precision


@full_precision
def l2_normalize(
    x: Tensor,  # (..., c)
    *,
    eps: float = 1e-12,
) -> Tensor:  # (..., c)
    """x / sqrt(|x|^2 + eps).

    Args:
        x: vectors.
        eps: in the unit of x squared. A vector far shorter than sqrt(eps) is not stretched to one but shrinks towards
            zero, smoothly: round-off around a zero vector stays small, and so does the slope there, 1 / sqrt(eps).

    Shape: (..., c) -> (..., c).

    Reference: Relja/netvlad, whose eps of 1e-12 stands under the root.

    >>> import torch
    >>> l2_normalize(torch.tensor([[3., 4.], [0., 0.]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    check_floating("x", x)
    # Not |x|^2 + eps: the ONNX exporter takes a summand of 1e-12 for zero and leaves it out.
    return x / (eps**0.5 * ((x * x).sum(-1, keepdim=True) / eps + 1).sqrt())
