"""Depthwise convolution: a filter of its own for each channel."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from covpool.kernels.gpu import MIN_SHARED_MEMORY, TRITON_INSTALLED, shared_memory
from covpool.ops._autograd import gradients_of, in_forward_mode, is_eager, is_eager_gradient

Pair = tuple[int, int]
MOST_TAPS = 7  # of a side of the filters
MOST_NUMBERS = 2**31  # of an image, and of positions of a batch, which the kernels count in 32 bits


class _Depthwise(torch.autograd.Function):
    """The convolution by the kernels."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, *options: Any) -> Tensor:
        from covpool.kernels import depthwise as kernels  # at first use: `import covpool` must not import triton

        y, taps = kernels.forward_eager(x, weight, _size(x, weight, *options), *options)
        ctx.save_for_backward(x, weight, taps)
        ctx.options = options
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        from covpool.kernels import depthwise as kernels

        x, weight, taps = ctx.saved_tensors
        if not is_eager_gradient(g):
            by_torch = gradients_of(lambda x, weight: _by_torch(x, weight.to(x.dtype), ctx.options), (x, weight), g)
            return *by_torch, None, None, None
        # Hooks such as `save_on_cpu` change the layout.
        x, weight = x.contiguous(memory_format=torch.channels_last), weight.contiguous()
        g = g.to(x.dtype).contiguous(memory_format=torch.channels_last)
        needs_x, needs_weight = ctx.needs_input_grad[:2]
        size = tuple(x.shape[2:])
        dx = kernels.input_gradient_eager(g, weight, taps, size, *ctx.options) if needs_x else None
        dweight = kernels.filter_gradient_eager(x, g, weight, *ctx.options) if needs_weight else None
        return dx, dweight, None, None, None


def depthwise_convolution(
    x: Tensor,  # (b, c, h, w)
    weight: Tensor,  # (c, 1, kh, kw)
    *,
    stride: Pair = (1, 1),
    padding: Pair = (0, 0),
    dilation: Pair = (1, 1),
) -> Tensor:  # (b, c, rows, columns)
    """Filter each channel of a map by itself, as `torch.nn.functional.conv2d` with c groups.

    On a GPU, maps whose channels are contiguous are computed by kernels, and second derivatives are refused. All other
    cases are torch's operation. Autocast applies to the map; the kernels take the filters as they are.

    Args:
        x: Feature map.
        weight: A filter for each channel.
        stride: Steps between the positions of the result, down and across.
        padding: Zeros around the map.
        dilation: Steps between the taps of a filter.

    >>> x = torch.arange(8.).view(1, 2, 2, 2)
    >>> depthwise_convolution(x, torch.tensor([1., 10.]).view(2, 1, 1, 1)).flatten().tolist()
    [0.0, 1.0, 2.0, 3.0, 40.0, 50.0, 60.0, 70.0]
    """
    options = stride, padding, dilation
    if x.is_cuda and torch.is_autocast_enabled("cuda") and x.dtype == torch.float32:
        x = x.to(torch.get_autocast_dtype("cuda"))
    if not _served(x, weight, *options):
        return _by_torch(x, weight, options)
    out: Tensor = _Depthwise.apply(x, weight, *options)
    return out


def _by_torch(x: Tensor, weight: Tensor, options: tuple[Pair, Pair, Pair]) -> Tensor:
    return functional.conv2d(x, weight, None, *options, groups=weight.shape[0])


def _size(x: Tensor, weight: Tensor, stride: Pair, padding: Pair, dilation: Pair) -> Pair:
    """Height and width of the result."""
    rows, columns = (
        (length + 2 * p - d * (k - 1) - 1) // s + 1
        for length, k, s, p, d in zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    )
    return rows, columns


def _served(x: Tensor, weight: Tensor, *options: Pair) -> bool:
    """Whether the kernels support a case."""
    known = TRITON_INSTALLED and x.is_cuda and x.ndim == weight.ndim == 4
    if not known or in_forward_mode() or not is_eager(x, weight):
        return False
    size = _size(x, weight, *options)
    return (
        x.is_contiguous(memory_format=torch.channels_last)
        and weight.is_contiguous()
        and weight.shape[:2] == (x.shape[1], 1)
        and weight.device == x.device
        and max(weight.shape[2:]) <= MOST_TAPS
        and x.dtype in (torch.bfloat16, torch.float16, torch.float32)
        and weight.dtype in (torch.bfloat16, torch.float16, torch.float32)
        and x.numel() > 0
        and min(size) > 0
        and max(x[0].numel(), x.shape[1] * size[0] * size[1], x.shape[0] * size[0] * size[1]) < MOST_NUMBERS
        and shared_memory(x.device) >= MIN_SHARED_MEMORY
    )
