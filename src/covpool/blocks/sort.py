"""SORT: the second-order response transform, in place of the sum of two branches."""

import math

from torch import Tensor, nn

from covpool._check_tensors import check_floating
from covpool._errors import CovpoolError
from covpool.ops import at_least_float32

TAU = 0.01  # in squared units of the responses; keeps the slope of the root finite where a response is zero


def second_order_response(
    a: Tensor,
    b: Tensor,  # of the same shape
    *,
    tau: float = TAU,
    root: bool = True,
) -> Tensor:
    """The sum of two responses plus a product of them: y = a + b + sqrt(relu(a) relu(b) + tau).

    Where either response is not positive, this is a + b + sqrt(tau). The product is computed in float32 at least: in
    half precision it overflows for responses of 256 and more.

    Args:
        a, b: The branches; in a residual network the shortcut and the residual.
        tau: Constant under the root.
        root: False gives the variant y = a + b + relu(a) relu(b), which has no tau.

    Reference: Wang et al., SORT: Second-Order Response Transform for Visual Recognition, ICCV 2017.

    >>> import torch
    >>> second_order_response(torch.tensor([3.0, -1.0]), torch.tensor([3.0, 2.0]), tau=7.0)
    tensor([10.0000,  3.6458])
    """
    check_floating("a", a)
    check_floating("b", b)
    _check_tau(tau)
    total = a + b
    product = at_least_float32(a).relu() * at_least_float32(b).relu()
    return total + ((product + tau).sqrt() if root else product).to(total.dtype)


class SecondOrderResponse(nn.Module):
    """`second_order_response` as a module without parameters, with the same options.

    >>> SecondOrderResponse(tau=0.04)
    SecondOrderResponse(tau=0.04, root=True)
    """

    def __init__(self, *, tau: float = TAU, root: bool = True) -> None:
        super().__init__()
        _check_tau(tau)
        self.tau = tau
        self.root = root

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return second_order_response(a, b, tau=self.tau, root=self.root)

    def extra_repr(self) -> str:
        return f"tau={self.tau}, root={self.root}"


def _check_tau(tau: float) -> None:
    if not (math.isfinite(tau) and tau > 0):
        raise CovpoolError(f"`tau` must be positive, so that the slope of the root is finite at zero; got {tau}")
