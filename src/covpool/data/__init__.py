"""Data sets in their owners' layouts, transforms, and batches that do not depend on who loaded them."""

from covpool.data._images import UNKNOWN, BrokenImage, Images, Paths
from covpool.data._settings import Augment, Cache, Data, check_augment, check_data, check_not_negative

__all__ = [
    "UNKNOWN",
    "Augment",
    "BrokenImage",
    "Cache",
    "Data",
    "Images",
    "Paths",
    "check_augment",
    "check_data",
    "check_not_negative",
]
