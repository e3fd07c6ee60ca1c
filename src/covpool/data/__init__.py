"""Images: data sets as their authors ship them, and the settings that turn images into inputs."""

from covpool.data._fingerprint import image_fingerprint as image_fingerprint
from covpool.data._images import UNKNOWN as UNKNOWN
from covpool.data._images import BrokenImage as BrokenImage
from covpool.data._images import Images as Images
from covpool.data._images import Paths as Paths
from covpool.data._settings import Augment as Augment
from covpool.data._settings import Cache as Cache
from covpool.data._settings import Data as Data
