"""The dimension reduction before pooling: 1x1 convolutions, plain or with batch norm and ReLU, once or in a chain."""

import logging
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from covpool._errors import CovpoolError, check_positive_int
from covpool.ops import at_least_float32, in_autocast
from covpool.pools._principal_axes import principal_axes

logger = logging.getLogger(__name__)

Activation = Literal["relu", "relu6"]
ReduceKind = Literal["conv_bn_relu", "linear"]


class Reduction(nn.Module):
    """A chain of 1x1 convolutions on maps (b, c, h, w); the identity without blocks.

    With a mask, the batch statistics in training include the kept positions only. Values at other positions affect
    neither the output nor the gradients of the weights. Half-precision features are converted to float32 if the weights
    are float32.

    Args:
        in_features: Number of input channels.
        reduce_to: Number of channels after each block.
        kind: "conv_bn_relu" puts batch norm and an activation after each convolution; "linear" is the convolution with
            a bias alone.
        activation: "relu6" for networks that were trained with it elsewhere; "relu" if not given.
    """

    def __init__(
        self,
        in_features: int,
        reduce_to: int | Sequence[int] | None,
        *,
        kind: ReduceKind = "conv_bn_relu",
        activation: Activation | None = None,
    ) -> None:
        super().__init__()
        if kind == "linear" and activation is not None:
            raise CovpoolError(
                f"`reduce_activation` = {activation!r} needs `reduce_kind` = 'conv_bn_relu': 'linear' has none"
            )
        self.kind, self.activation = kind, activation or "relu"
        widths = () if reduce_to is None else (reduce_to,) if isinstance(reduce_to, int) else tuple(reduce_to)
        self.convolutions, self.norms = nn.ModuleList(), nn.ModuleList()
        for width in widths:
            check_positive_int("reduce_to", width)
            convolution = nn.Conv2d(in_features, width, 1, bias=kind == "linear")
            nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
            self.convolutions.append(convolution)
            self.norms.append(nn.BatchNorm2d(width) if kind == "conv_bn_relu" else nn.Identity())
            in_features = width
        self.out_features = in_features
        self._initial_sum = _sum_of(self.convolutions)

    def forward(
        self,
        x: Tensor,  # (b, c, h, w)
        mask: Tensor | None = None,  # (b, h w)
    ) -> Tensor:  # (b, d, h, w)
        if not (self.training or torch.is_grad_enabled() or torch.compiler.is_compiling()):
            self._warn_if_random()
        return self._leading(len(self.convolutions), x, mask)

    def input_rows(
        self,
        block: int,
        x: Tensor,  # (b, c, h, w)
        mask: Tensor | None,  # (b, h w)
    ) -> Tensor:  # (m, c)
        """Return what a block of the chain gets at the kept positions of all images, one per row."""
        rows = self._leading(block, x, mask).flatten(2).mT  # (b, n, c)
        return rows.flatten(0, 1) if mask is None else rows[mask]

    def start_block(
        self,
        block: int,
        mean: Tensor,  # (c,)
        covariance: Tensor,  # (c, c)
    ) -> None:
        """Set a block to the principal axes of its input, centered by its bias or by its batch norm."""
        convolution, norm = self.convolutions[block], self.norms[block]
        assert isinstance(convolution, nn.Conv2d)
        axes, variances = principal_axes(covariance, convolution.out_channels)
        if len(axes) < convolution.out_channels:
            raise CovpoolError(
                f"`reduce_to` = {convolution.out_channels} is more than the {len(axes)} channels of the features: "
                "principal axes need at most as many"
            )
        convolution.weight.copy_(axes[:, :, None, None])
        if convolution.bias is not None:
            convolution.bias.copy_(-axes @ mean)
        if isinstance(norm, nn.BatchNorm2d):
            assert norm.running_mean is not None and norm.running_var is not None
            assert norm.num_batches_tracked is not None
            norm.running_mean.copy_(axes @ mean)
            norm.running_var.copy_(variances)
            norm.num_batches_tracked.fill_(1)

    def _leading(self, blocks: int, x: Tensor, mask: Tensor | None) -> Tensor:
        """Apply the first blocks of the chain."""
        if mask is not None and blocks:
            x = torch.where(_as_map(mask, x), x, 0)
        for block in range(blocks):
            convolution, norm = self.convolutions[block], self.norms[block]
            x = convolution(_in_dtype_of(convolution, x))
            if self.kind == "linear":
                continue
            x = masked_batch_norm(x, mask, norm) if mask is not None and norm.training else norm(x)
            x = x.relu() if self.activation == "relu" else nn.functional.relu6(x)
        return x

    def _warn_if_random(self) -> None:
        """Log a warning, once, if the weights are still the random ones of a new reduction."""
        initial, self._initial_sum = self._initial_sum, None
        if initial is not None and _sum_of(self.convolutions) == initial:
            logger.warning(
                "vectors come from a reduction with random weights: train the network, load weights, or call "
                "pool.init_reduction(batches) first"
            )


def _sum_of(convolutions: nn.ModuleList) -> int | None:
    """Return a sum that tells whether weights have changed; None if there are no numbers to sum.

    It adds the bits of the weights as integers, so that it is exact and the same on every device.
    """
    weights: list[Any] = [convolution.weight for convolution in convolutions]
    if not weights or any(weight.is_meta or type(weight.data) is not Tensor for weight in weights):
        return None
    return sum(int(weight.detach().float().contiguous().view(torch.int32).sum()) for weight in weights)


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
