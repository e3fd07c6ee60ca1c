"""Batch norm and the activation behind it, as one operation."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from covpool._errors import check_choice
from covpool.kernels.gpu import MIN_SHARED_MEMORY, TRITON_INSTALLED, shared_memory
from covpool.ops._autograd import gradients_of, in_forward_mode, is_eager, is_eager_gradient

Activation = Literal["none", "relu", "relu6", "silu"]
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "none": lambda z: z,
    "relu": functional.relu,
    "relu6": functional.relu6,
    "silu": functional.silu,
}
MOST_ROWS = 2**30  # of a map, one for each position of an image; the kernels count twice as many in 32 bits


class _BatchNorm(torch.autograd.Function):
    """The norm of a batch by the kernels."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, *options: Any) -> Tensor:
        from covpool.kernels import batch_norm as kernels  # at first use: `import covpool` must not import triton

        running, momentum, eps, activation = options
        y, mean, variance = kernels.forward_eager(x, weight, bias, running, momentum, eps, activation)
        ctx.save_for_backward(x, mean, variance, weight, bias)
        ctx.options = eps, activation
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        from covpool.kernels import batch_norm as kernels

        x, mean, variance, weight, bias = ctx.saved_tensors
        eps, activation = ctx.options
        if not is_eager_gradient(g):
            by_torch = gradients_of(lambda x, w, b: _of_batch(x, w, b, eps, activation), (x, weight, bias), g)
            return *by_torch, *[None] * 4
        x = x.contiguous(memory_format=torch.channels_last)  # hooks such as `save_on_cpu` change the layout
        g = g.to(x.dtype).contiguous(memory_format=torch.channels_last)
        return *kernels.backward_eager(x, g, mean, variance, weight, bias, eps, activation), *[None] * 4


def batch_norm(
    x: Tensor,  # (b, c, h, w)
    weight: Tensor,  # (c,)
    bias: Tensor,  # (c,)
    running: tuple[Tensor, Tensor, Tensor] | None,
    *,
    training: bool,
    momentum: float = 0.1,
    eps: float = 1e-5,
    activation: Activation = "none",
) -> Tensor:  # (b, c, h, w)
    """The activation of a batch norm, activation(weight (x - mean) / deviation + bias).

    On a GPU, maps whose channels are contiguous are computed by kernels, in training and without gradients. Their
    second derivatives are refused. All other cases are torch's operations.

    Args:
        x: Feature map.
        weight: Scale of each channel.
        bias: Shift of each channel.
        running: Mean (c,), variance (c,) and number of batches (). Training updates them in place.
        training: Normalize by the statistics of the batch instead of the running ones.
        momentum: Share of the batch in the running statistics.
        eps: Added to the variance, in its unit.
        activation: "none", "relu", "relu6" or "silu".

    >>> x = torch.tensor([1., 3.]).view(2, 1, 1, 1)
    >>> y = batch_norm(x, torch.ones(1), torch.zeros(1), None, training=True, activation="relu")
    >>> [round(value, 4) for value in y.flatten().tolist()]
    [0.0, 1.0]
    """
    check_choice("activation", activation, tuple(ACTIVATIONS))
    if _served(x, weight, bias, running, training=training):
        if training:
            out: Tensor = _BatchNorm.apply(x, weight, bias, running, momentum, eps, activation)
            return out
        learns = torch.is_grad_enabled() and any(t.requires_grad for t in (x, weight, bias))
        if not learns and running is not None:
            from covpool.kernels import batch_norm as kernels

            return kernels.inference_eager(x, weight, bias, *running[:2], eps, activation)
    if training and running is not None:
        running[2].add_(1)
    mean, variance = (None, None) if running is None else running[:2]
    z = functional.batch_norm(x, mean, variance, weight, bias, training, momentum, eps)
    return ACTIVATIONS[activation](z)


def _of_batch(x: Tensor, weight: Tensor, bias: Tensor, eps: float, activation: Activation) -> Tensor:
    """The activated norm by the statistics of the batch, in torch's operations."""
    return ACTIVATIONS[activation](functional.batch_norm(x, None, None, weight, bias, True, 0.0, eps))


def _served(
    x: Tensor, weight: Tensor, bias: Tensor, running: tuple[Tensor, Tensor, Tensor] | None, *, training: bool
) -> bool:
    """Whether the kernels support a case."""
    others = weight, bias, *(() if running is None else running)
    known = TRITON_INSTALLED and x.is_cuda and x.ndim == 4
    if not known or in_forward_mode() or not is_eager(x, *others):
        return False
    c = x.shape[1]
    return (
        x.is_contiguous(memory_format=torch.channels_last)
        and x.dtype in (torch.bfloat16, torch.float16, torch.float32)
        and x.numel() > c > 0
        and x.numel() // c < MOST_ROWS
        and all(t.dtype == torch.float32 and t.shape == (c,) and t.is_contiguous() for t in others[:4])
        and all(t.device == x.device for t in others)
        and shared_memory(x.device) >= MIN_SHARED_MEMORY
        and (training or running is not None)
    )
