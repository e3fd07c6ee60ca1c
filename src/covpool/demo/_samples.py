"""Samples of the demo: the features that pools take, with the class of each sample."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from covpool._progress import OnProgress, ignore
from covpool.data import Augment, Data, Images
from covpool.data.pipeline import EvalBatches
from covpool.engine import infer, with_progress
from covpool.models import InputSettings, make_features

AT_ONCE = 64  # samples in a batch
BACKBONE = "torchvision/mobilenet_v2"


@dataclass(frozen=True, eq=False)
class TaskSamples:
    """Features of n samples, in one or more variants.

    Attributes:
        features: For each variant, feature maps (n, c, h, w) or tokens (n, positions, c).
        targets: Class of each sample, (n,).
        mask: True for the positions that belong to a sample, (n, positions); None if all do.
    """

    features: dict[str, Tensor]
    targets: Tensor
    mask: Tensor | None = None

    def __len__(self) -> int:
        return len(self.targets)

    def batches(self, variant: str) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Yield float32 features and their mask, batch by batch."""
        for rows in torch.arange(len(self)).split(AT_ONCE):
            yield self.features[variant][rows].float(), None if self.mask is None else self.mask[rows]

    def channels(self, variant: str) -> int:
        """Number of channels of a variant."""
        features = self.features[variant]
        return features.shape[1 if features.ndim == 4 else 2]

    def select(self, rows: slice) -> "TaskSamples":
        """Return some of the samples."""
        features = {variant: tensor[rows] for variant, tensor in self.features.items()}
        return TaskSamples(features, self.targets[rows], None if self.mask is None else self.mask[rows])


def image_samples(
    images: Images, weights: str, settings: InputSettings, levels: tuple[str, ...], on_progress: OnProgress = ignore
) -> TaskSamples:
    """Compute feature maps with the frozen MobileNetV2, one variant for each level, kept in half precision.

    Args:
        images: The images.
        weights: File of the weights of the network.
        settings: How an image becomes an input.
        levels: Modules whose outputs are taken; the deepest one last.
        on_progress: Called after every batch.
    """
    backbone = make_features(BACKBONE, levels=levels, keep_last_stride=True, weights=weights or None)
    batches = EvalBatches(images, Augment().resolved(settings), Data(workers=0), batch_size=AT_ONCE)
    kept: dict[str, list[Tensor]] = {level: [] for level in levels}
    for found in infer(backbone, with_progress(batches, f"features of {len(images)} images", on_progress)):
        for level, features in zip(levels, found.outputs[0], strict=True):
            kept[level].append(features.half())
    return TaskSamples({level: torch.cat(parts) for level, parts in kept.items()}, torch.tensor(images.targets))


def with_deltas(tokens: Tensor, lengths: Tensor) -> Tensor:  # (n, positions, c), (n,) -> (n, positions, 2 c)
    """Add the change from the step before to the step after as further channels.

    >>> with_deltas(torch.tensor([[[1.0], [3.0], [7.0], [0.0]]]), torch.tensor([3]))[0, :3, 1].tolist()
    [1.0, 3.0, 2.0]
    """
    steps = torch.arange(tokens.shape[1])
    after = torch.minimum(steps + 1, lengths[:, None] - 1)[..., None].expand_as(tokens)
    before = (steps - 1).clamp(min=0)
    return torch.cat((tokens, (tokens.gather(1, after) - tokens[:, before]) / 2), -1)


def standardized(tokens: Tensor, mask: Tensor, training: int) -> Tensor:
    """Give every channel mean 0 and deviation 1 over the first `training` samples."""
    seen = tokens[:training][mask[:training]]
    return (tokens - seen.mean(0)) / seen.std(0)
