"""Down-sampling modules that are no single convolution or pooling, computed at every position with the same weights.

At every second position a dense form has the output of the original.
"""

from collections.abc import Callable
from functools import partial

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


class DensePatchEmbedding(nn.Module):
    """The patch embedding of Twins at every position: a convolution of the patches to the right and below, and a norm.

    Args:
        embedding: Patch embedding of timm, which also returns the size of the map.
    """

    def __init__(self, embedding: nn.Module) -> None:
        super().__init__()
        proj, norm = embedding.proj, embedding.norm
        assert isinstance(proj, nn.Conv2d) and isinstance(norm, nn.LayerNorm)
        self.proj, self.norm = proj, norm
        proj.stride = (1, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[int, int]]:  # (b, c, h, w) -> (b, h w, d), (h, w)
        padded = nn.functional.pad(x, (0, 1, 0, 1), mode="replicate")
        return self.norm(self.proj(padded).flatten(2).mT), (x.shape[2], x.shape[3])


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


DENSE_FORMS = (DensePatchMerging, DensePatchEmbedding, DenseInceptionReduction)


def make_dense(backbone: nn.Module) -> tuple[list[str], list[Callable[[], None]]]:
    """Give the last module that has a dense form that form, in place.

    Returns:
        Name of the replaced module, and how to undo the change; nothing if no module has a dense form.
    """
    for name, module in reversed(list(backbone.named_modules())):
        strides = [(part, part.stride) for part in module.modules() if isinstance(part, nn.Conv2d)]
        dense = None if isinstance(module, DENSE_FORMS) else _dense_form(module)
        if dense is not None:
            backbone.set_submodule(name, dense)
            undo = [partial(setattr, part, "stride", stride) for part, stride in strides]
            return [name], [partial(backbone.set_submodule, name, module), *undo]
    return [], []


def _dense_form(module: nn.Module) -> nn.Module | None:
    """Return the dense form of a module that down-samples, with its own parameters under their names; else None."""
    children = dict(module.named_children())
    if set(children) == {"reduction", "norm"} and isinstance(children["reduction"], nn.Linear):
        four_times = children["reduction"].in_features == 2 * children["reduction"].out_features
        return DensePatchMerging(module) if four_times and isinstance(children["norm"], nn.LayerNorm) else None
    if set(children) == {"proj", "norm"} and isinstance(children["norm"], nn.LayerNorm):
        proj = children["proj"]
        merges = isinstance(proj, nn.Conv2d) and proj.kernel_size == proj.stride == (2, 2)
        return DensePatchEmbedding(module) if merges else None
    if {"branch3x3_2", "branch7x7x3_4"} <= set(children):
        return DenseInceptionReduction(module)
    return None


def make_attention_dense(backbone: nn.Module) -> tuple[list[str], list[Callable[[], None]]]:
    """Give the last attention of LeViT that down-samples stride 1, and fit the tables of biases after it, in place.

    A table has one entry per distance in positions. The table of the attention that down-samples covers all distances
    of its input. Positions after it are half as far apart, so their tables are read at half the distance, rounded down.

    Returns:
        Name of the changed module, and how to undo the change; nothing if there is no such attention.
    """
    found = [(name, part) for name, part in backbone.named_modules() if hasattr(part, "attention_bias_idxs")]
    strided = [i for i, (_, part) in enumerate(found) if hasattr(getattr(part, "q", None), "down")]
    if not strided:
        return [], []
    (name, down), *later = found[strided[-1] :]
    side = down.resolution
    undo: list[Callable[[], None]] = []
    poolings = [part for part in down.q.down.modules() if hasattr(part, "stride")]
    changes: list[tuple[nn.Module, str, object]] = [(part, "stride", 1) for part in (down, *poolings)]
    changes.append((down, "attention_bias_idxs", _distances(side, 1, side[1]).to(down.attention_bias_idxs.device)))
    for _, part in later:
        table = _distances(side, 2, part.resolution[1]).to(part.attention_bias_idxs.device)
        changes += [(part, "attention_bias_idxs", table), (part, "resolution", side)]
    changes += [(part, "attention_bias_cache", {}) for _, part in found]
    for part, key, value in [*changes, (backbone, "dense_attention", True)]:
        undo.append(partial(setattr, part, key, getattr(part, key)))
        setattr(part, key, value)
    return [name], undo


def _distances(side: tuple[int, int], step: int, width: int) -> Tensor:  # -> (n, n)
    """Entry of a table for each pair of positions of a map, whose distances are divided by a step."""
    rows, columns = torch.meshgrid(torch.arange(side[0]), torch.arange(side[1]), indexing="ij")
    far = [(axis.flatten()[:, None] - axis.flatten()[None, :]).abs() // step for axis in (rows, columns)]
    return far[0] * width + far[1]
