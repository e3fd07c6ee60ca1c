"""The dimension reduction before pooling: 1x1 convolution, batch norm and ReLU, once or in a chain."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from covpool._check import check_choice, check_positive_int
from covpool.ops import at_least_float32, in_autocast

Activation = Literal["relu", "relu6"]


class Reduction(nn.Module):
    """A chain of Conv1x1-BN-ReLU blocks on maps (b, c, h, w); the identity without blocks.

    With a mask, the batch statistics in training include the kept positions only. Values at other positions affect
    neither the output nor the gradients of the weights. Half-precision features are converted to float32 if the weights
    are float32.

    Args:
        in_features: Number of input channels.
        reduce_to: Number of channels after each block.
        activation: "relu6" for networks that were trained with it elsewhere.
    """

    def __init__(
        self, in_features: int, reduce_to: int | Sequence[int] | None, *, activation: Activation = "relu"
    ) -> None:
        super().__init__()
        check_choice("reduce_activation", activation, ("relu", "relu6"))
        self.activation = activation
        widths = () if reduce_to is None else (reduce_to,) if isinstance(reduce_to, int) else tuple(reduce_to)
        self.convolutions, self.norms = nn.ModuleList(), nn.ModuleList()
        for width in widths:
            check_positive_int("reduce_to", width)
            convolution = nn.Conv2d(in_features, width, 1, bias=False)
            nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
            self.convolutions.append(convolution)
            self.norms.append(nn.BatchNorm2d(width))
            in_features = width
        self.out_features = in_features

    def forward(
        self,
        x: Tensor,  # (b, c, h, w)
        mask: Tensor | None = None,  # (b, h w)
    ) -> Tensor:  # (b, d, h, w)
        if mask is not None and self.convolutions:
            x = torch.where(_as_map(mask, x), x, 0)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = convolution(_in_dtype_of(convolution, x))
            x = masked_batch_norm(x, mask, norm) if mask is not None and norm.training else norm(x)
            x = x.relu() if self.activation == "relu" else nn.functional.relu6(x)
        return x


def _as_map(
    mask: Tensor,  # (b, h w)
    x: Tensor,  # (b, c, h, w)
) -> Tensor:  # (b, 1, h, w)
    return mask.reshape(x.shape[0], 1, *x.shape[2:])


def _in_dtype_of(convolution: nn.Module, x: Tensor) -> Tensor:
    """Convert half-precision x to float32 if the weights are float32; autocast converts both itself."""
    assert isinstance(convolution, nn.Conv2d)
    half_weights = convolution.weight.dtype in (torch.float16, torch.bfloat16)
    return x if half_weights or in_autocast(x) else at_least_float32(x)


def masked_batch_norm(
    x: Tensor,  # (b, c, h, w)
    mask: Tensor,  # (b, h w)
    norm: nn.Module,
) -> Tensor:  # (b, c, h, w)
    """Apply batch norm in training with statistics and running averages over the kept positions only."""
    assert isinstance(norm, (nn.BatchNorm1d, nn.BatchNorm2d))
    dtype = x.dtype
    x = at_least_float32(x)
    keep = _as_map(mask, x)
    kept = torch.where(keep, x, 0)
    count = keep.sum().clamp(min=1)
    mean = (kept.sum((0, 2, 3)) / count)[:, None, None]
    variance = (torch.where(keep, x - mean, 0) ** 2).sum((0, 2, 3)) / count
    if norm.track_running_stats:
        _update_running(norm, mean.flatten(), variance * count / (count - 1).clamp(min=1))
    x = (x - mean) * torch.rsqrt(variance + norm.eps)[:, None, None]
    return (x * norm.weight[:, None, None] + norm.bias[:, None, None]).to(dtype)


@torch.no_grad()
def _update_running(norm: nn.BatchNorm1d | nn.BatchNorm2d, mean: Tensor, unbiased_variance: Tensor) -> None:
    assert norm.running_mean is not None and norm.running_var is not None
    assert norm.num_batches_tracked is not None and norm.momentum is not None
    norm.num_batches_tracked.add_(1)
    norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), norm.momentum)
    norm.running_var.lerp_(unbiased_variance.to(norm.running_var.dtype), norm.momentum)
