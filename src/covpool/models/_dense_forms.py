"""Down-sampling modules that are no single convolution or pooling, computed at every position with the same weights.

At every second position a dense form has the output of the original.
"""

import torch
from torch import Tensor, nn


class DensePatchMerging(nn.Module):
    """The patch merging of Swin at every position: the four patches to the right and below, a norm and a linear map.

    Args:
        merging: Patch merging of timm or torchvision. Its norm is before the linear map (Swin) or after it (Swin v2).
    """

    def __init__(self, merging: nn.Module) -> None:
        super().__init__()
        reduction, norm = merging.reduction, merging.norm
        assert isinstance(reduction, nn.Linear) and isinstance(norm, nn.LayerNorm)
        self.reduction, self.norm = reduction, norm
        self.norm_first = norm.normalized_shape == (reduction.in_features,)

    def forward(self, x: Tensor) -> Tensor:  # (b, h, w, c) -> (b, h, w, 2 c)
        padded = nn.functional.pad(x.movedim(-1, 1), (0, 1, 0, 1), mode="replicate").movedim(1, -1)
        top, bottom = padded[:, :-1], padded[:, 1:]
        x = torch.cat((top[:, :, :-1], bottom[:, :, :-1], top[:, :, 1:], bottom[:, :, 1:]), -1)
        merged: Tensor = self.reduction(self.norm(x)) if self.norm_first else self.norm(self.reduction(x))
        return merged


class DenseInceptionReduction(nn.Module):
    """The last reduction of Inception-v3 at every position: two branches of convolutions and a max-pooling.

    Args:
        block: Mixed_7a of timm or torchvision, whose pooling is a function with a fixed stride.
    """

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        for name, module in block.named_children():
            self.add_module(name, module)
            for convolution in module.modules():
                if isinstance(convolution, nn.Conv2d):
                    convolution.stride = (1, 1)

    def forward(self, x: Tensor) -> Tensor:
        branches = [self._branch(x, "branch3x3", 2), self._branch(x, "branch7x7x3", 4)]
        return torch.cat((*branches, nn.functional.max_pool2d(x, 3, stride=1)), 1)

    def _branch(self, x: Tensor, name: str, length: int) -> Tensor:
        for number in range(1, length + 1):
            x = self.get_submodule(f"{name}_{number}")(x)
        return x


def dense_form(module: nn.Module) -> nn.Module | None:
    """Return the dense form of a module that down-samples, with its own parameters under their names; else None."""
    children = dict(module.named_children())
    if set(children) == {"reduction", "norm"} and isinstance(children["reduction"], nn.Linear):
        four_times = children["reduction"].in_features == 2 * children["reduction"].out_features
        return DensePatchMerging(module) if four_times and isinstance(children["norm"], nn.LayerNorm) else None
    if {"branch3x3_2", "branch7x7x3_4"} <= set(children):
        return DenseInceptionReduction(module)
    return None
