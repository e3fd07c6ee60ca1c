"""Mixup and cutmix: mixing pairs of images of a batch, and their targets."""

from collections.abc import Callable

from torch import Tensor
from torchvision.transforms import v2

from covpool.data import Augment

Mix = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # images, targets (b,) -> images, shares (b, classes)


def make_mix(augment: Augment, classes: int) -> Mix | None:
    """Make the mixing of a recipe. With both mixup and cutmix, each batch gets one of them at random.

    Args:
        augment: Its `mixup` and `cutmix` are the alpha of a Beta distribution; 0 = none.
        classes: Number of classes.
    """
    kinds: list[Mix] = []
    if augment.mixup:
        kinds.append(v2.MixUp(alpha=augment.mixup, num_classes=classes))
    if augment.cutmix:
        kinds.append(v2.CutMix(alpha=augment.cutmix, num_classes=classes))
    if not kinds:
        return None
    chosen: Mix = kinds[0] if len(kinds) == 1 else v2.RandomChoice(kinds)
    return chosen
