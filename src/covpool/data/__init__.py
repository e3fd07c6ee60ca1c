"""Images: data sets as their authors ship them, and the settings that turn images into inputs."""

from covpool.data._fingerprint import FileDetail as FileDetail
from covpool.data._fingerprint import file_fingerprints as file_fingerprints
from covpool.data._fingerprint import image_fingerprint as image_fingerprint
from covpool.data._images import UNKNOWN as UNKNOWN
from covpool.data._images import BrokenImage as BrokenImage
from covpool.data._images import Images as Images
from covpool.data._images import Paths as Paths
from covpool.data._images import to_rgb as to_rgb
from covpool.data._listing import find_images as find_images
from covpool.data._listing import label_images as label_images
from covpool.data._settings import Augment as Augment
from covpool.data._settings import Cache as Cache
from covpool.data._settings import Data as Data
from covpool.data._settings import ResolvedAugment as ResolvedAugment
