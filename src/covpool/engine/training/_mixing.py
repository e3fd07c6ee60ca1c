"""Mixup and cutmix: pairs of images of a batch, and their classes, mixed."""

from collections.abc import Callable

from torch import Tensor
from torchvision.transforms import v2

from covpool.data import Augment

Mix = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # images and classes (b,) -> images and shares (b, classes)


def make_mix(augment: Augment, classes: int) -> Mix | None:
    """The mixing that a recipe asks for; one of the two at random for each batch where it asks for both.

    Args:
        augment: its `mixup` and `cutmix`, each the alpha of a Beta distribution, 0 = none.
        classes: how many there are.
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
