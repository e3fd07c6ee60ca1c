"""iSQRT-COV as printed in "Deep CNNs Meet Global Covariance Pooling", with which the fast version is compared.

`covpool doctor`, the benchmarks and the tests use it. It shares no code with the fast version.
"""

from typing import Any

import torch
from torch import Tensor


def isqrt_iterated(a: Tensor, iterations: int, prenorm: str = "trace", postcomp: bool = True) -> Tensor:
    """N coupled Newton-Schulz steps on matrices (b, c, c), as printed; differentiable by plain autograd."""
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    if prenorm == "trace":
        t = a.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    else:
        t = (a * a).sum((-2, -1), keepdim=True).sqrt()
    y, p = a / t, eye.expand_as(a)
    for _ in range(iterations):
        half = 0.5 * (3 * eye - p @ y)
        y, p = y @ half, half @ p
    return y * t.sqrt() if postcomp else y


class IsqrtLiteral(torch.autograd.Function):
    """The paper's iSQRT layer, transcribed, on features (b, n, c).

    The covariance uses the centering matrix J (n x n). The forward pass takes 3 N - 3 products and stores every
    iterate. The backward pass is that of Appendix I, with 10 N - 12 products.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, iterations: int) -> Tensor:
        b, n, c = x.shape
        eye = torch.eye(c, dtype=x.dtype, device=x.device).expand(b, c, c)
        j = (torch.eye(n, dtype=x.dtype, device=x.device) / n - 1 / n**2).expand(b, n, n)
        sigma = x.mT @ j @ x
        t = sigma.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None]
        a = sigma / t
        half = 0.5 * (3 * eye - a)
        ys, ps = [a @ half], [half]
        for _ in range(2, iterations):
            half = 0.5 * (3 * eye - ps[-1] @ ys[-1])
            ys, ps = [*ys, ys[-1] @ half], [*ps, half @ ps[-1]]
        last = ys[-1] if iterations == 1 else 0.5 * ys[-1] @ (3 * eye - ps[-1] @ ys[-1])
        ctx.save_for_backward(x, j, sigma, t, a, last, *ys, *ps)
        ctx.iterations = iterations
        return last * t.sqrt()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, j, sigma, t, a, last, *iterates = ctx.saved_tensors
        ys, ps = iterates[: len(iterates) // 2], iterates[len(iterates) // 2 :]
        eye3 = 3 * torch.eye(a.shape[-1], dtype=a.dtype, device=a.device).expand_as(a)
        dy = g * t.sqrt()
        dp = None
        for y, p in zip(reversed(ys), reversed(ps), strict=True):
            if ctx.iterations == 1:
                break
            if dp is None:  # the last step has no P
                dy, dp = 0.5 * (dy @ (eye3 - y @ p) - p @ y @ dy), -0.5 * y @ dy @ y
            else:
                dy, dp = (
                    0.5 * (dy @ (eye3 - y @ p) - p @ dp @ p - p @ y @ dy),
                    0.5 * ((eye3 - y @ p) @ dp - y @ dy @ y - dp @ p @ y),
                )
        da = 0.5 * (dy @ (eye3 - a) - a @ dy)
        if dp is not None:
            da = da - 0.5 * dp
        scale = (g * last).sum((-2, -1), keepdim=True) / (2 * t.sqrt())
        scale = scale - (da * sigma).sum((-2, -1), keepdim=True) / t**2
        dsigma = da / t + scale * torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
        return j @ (x @ (dsigma + dsigma.mT)), None


def isqrt_literal(x: Tensor, iterations: int = 5) -> Tensor:
    """iSQRT-COV of features (b, n, c) exactly as printed in the paper."""
    return IsqrtLiteral.apply(x, iterations)
