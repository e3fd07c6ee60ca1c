"""The dimension reduction before pooling: 1x1 convolution, batch norm and ReLU, once or in a chain."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from covpool._check import check_positive_int
from covpool.ops._precision import at_least_float32


class Reduction(nn.Module):
    """A chain of Conv1x1-BN-ReLU blocks on maps (b, c, h, w); without any it passes them through.

    With a mask, the batch statistics in training count the kept positions only.

    Args:
        in_features: channels that come in.
        reduce_to: channels after each block.
    """

    def __init__(self, in_features: int, reduce_to: int | Sequence[int] | None) -> None:
        super().__init__()
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
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = convolution(x)
            x = _masked_batch_norm(x, mask, norm) if mask is not None and norm.training else norm(x)
            x = x.relu()
        return x


def _masked_batch_norm(
    x: Tensor,  # (b, c, h, w)
    mask: Tensor,  # (b, h w)
    norm: nn.Module,
) -> Tensor:  # (b, c, h, w)
    """Batch norm in training whose statistics count the kept positions only, running averages included."""
    assert isinstance(norm, nn.BatchNorm2d)
    dtype = x.dtype
    x = at_least_float32(x)
    keep = mask.reshape(x.shape[0], 1, *x.shape[2:])
    kept = torch.where(keep, x, 0)
    count = keep.sum().clamp(min=1)
    mean = (kept.sum((0, 2, 3)) / count)[:, None, None]
    variance = (torch.where(keep, x - mean, 0) ** 2).sum((0, 2, 3)) / count
    if norm.track_running_stats:
        _update_running(norm, mean.flatten(), variance * count / (count - 1).clamp(min=1))
    x = (x - mean) * torch.rsqrt(variance + norm.eps)[:, None, None]
    return (x * norm.weight[:, None, None] + norm.bias[:, None, None]).to(dtype)


@torch.no_grad()
def _update_running(norm: nn.BatchNorm2d, mean: Tensor, unbiased_variance: Tensor) -> None:
    assert norm.running_mean is not None and norm.running_var is not None
    assert norm.num_batches_tracked is not None and norm.momentum is not None
    norm.num_batches_tracked.add_(1)
    norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), norm.momentum)
    norm.running_var.lerp_(unbiased_variance.to(norm.running_var.dtype), norm.momentum)
