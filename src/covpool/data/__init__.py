"""Images: data sets as their authors ship them, and the settings that turn images into inputs."""

from covpool.data._fingerprint import image_fingerprint
from covpool.data._images import UNKNOWN, BrokenImage, Images, Paths
from covpool.data._settings import Augment, Cache, Data

__all__ = [
    "UNKNOWN",
    "Augment",
    "BrokenImage",
    "Cache",
    "Data",
    "Images",
    "Paths",
    "image_fingerprint",
]
