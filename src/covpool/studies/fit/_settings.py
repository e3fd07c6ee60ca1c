"""The settings of a fit: the backbone, the pool, the image size, the tap, and the classifier."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt
from pydantic import field_validator as check_field
from pydantic import model_validator as check_table

from covpool._errors import CovpoolError
from covpool._settings import Options, Seed, Settings
from covpool.data import Data
from covpool.recipe import listed, read_settings
from covpool.studies.fit._choice import check_pool

AUTO = "auto"
AUTO_POOLS = ("avg", "isqrt", "gaussian")
LAST = "last"


class Fit(Settings):
    """A pool and a linear classifier on the frozen features of a backbone."""

    IS_TABLE: ClassVar[bool] = False

    backbone: str = "torchvision/mobilenet_v2"
    """Name of the backbone: "resnet50" of timm, or "torchvision/resnet50"."""
    backbone_options: Options = Field(default_factory=dict)
    """Further arguments of the function that builds the backbone."""
    weights: str = ""
    """File with weights of the backbone."""
    pretrained: bool | None = None
    """Whether to use the weights that timm or torchvision offer. Unset: yes, unless `weights` names a file."""
    pool: tuple[str, ...] = (AUTO,)
    """Pool, NAME or NAME:option=value:..., or a list to choose from. "auto" chooses from avg, isqrt and gaussian."""
    width: PositiveInt = 256
    """Channels after PCA; mfafv gets at most 128. avg, gem, max and kernel, and features with fewer channels, have no
    PCA."""
    size: tuple[NonNegativeInt, ...] = (0,)
    """Image size, or a list to choose from. 0 is the backbone's own; with pool=auto also 1.4 times that."""
    level: tuple[str, ...] = ("",)
    """Module whose output is pooled, or a list to choose from. "last" is the last features. Unset: the last features;
    with pool=auto also the block before them."""
    flips: bool = True
    """Whether the classifier is also fitted to the flipped training images."""
    class_weights: Literal["none", "balanced"] = "none"
    """Whether every image counts the same, or every class."""
    folds: Annotated[int, Field(ge=2)] = 3
    """Number of folds of the cross-validation."""
    choose_on: NonNegativeInt = 0
    """Number of training images that candidates are compared on. 0 is 2,000 on a CPU and all images on a GPU."""
    seed: Seed = 0
    """Seed of the split of a flat folder, and of pools that start at random."""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Fraction of each class of a flat folder to test on."""
    maps: Literal["fp16", "bf16", "fp32"] = "fp16"
    """Precision in which feature maps are kept."""
    keep: Literal["device", "ram"] = "device"
    """Where feature maps are kept."""
    batch_size: PositiveInt = 64
    """Images per batch of the backbone."""
    cache: str = ""
    """Folder that keeps feature maps on disk for the next fit."""
    device: str = "auto"
    """Device to run on: cpu or cuda. "auto" is the GPU if there is one."""
    out: str = ""
    """Folder of the results. The default is runs/fit-NAME, with the name of the data folder."""
    data: Data = Data()

    @check_field("pool", "level", "size", mode="before")
    @classmethod
    def _split_list(cls, value: Any) -> Any:
        """Accept a single value, and a list of names without quotes."""
        if isinstance(value, int) and not isinstance(value, bool):
            return (value,)
        if not isinstance(value, str):
            return value
        names = listed(value)
        if names is not None:
            return names
        return [int(value)] if value.isdecimal() else [str(value)]

    @check_table(mode="after")
    def _check_together(self) -> Self:
        if self.weights and self.pretrained:
            raise CovpoolError("`weights` and `pretrained` both give weights: choose one")
        if not self.data.root:
            raise CovpoolError("no images are named: name a folder, as in `covpool fit FOLDER`")
        for name in ("pool", "size", "level"):
            if not getattr(self, name):
                raise CovpoolError(f"`{name}` must have at least one value; got []")
        for label in self.pools:
            check_pool(label)
        return self

    @property
    def is_auto(self) -> bool:
        """Whether pool, size and level are chosen by cross-validation where they are not named."""
        return AUTO in self.pool

    @property
    def pools(self) -> tuple[str, ...]:
        """The pools to choose from."""
        return tuple(dict.fromkeys(p for label in self.pool for p in (AUTO_POOLS if label == AUTO else (label,))))

    @property
    def uses_pretrained(self) -> bool:
        """Whether the library's weights are used."""
        return not self.weights if self.pretrained is None else self.pretrained

    @property
    def folder(self) -> Path:
        """The folder of the results."""
        return Path(self.out) if self.out else Path("runs", f"fit-{Path(self.data.root).resolve().name}")


def read_fit(folder: str, settings: Iterable[str] = ()) -> Fit:
    """Read the settings of a fit, typed as "key=value". Lists of names need no quotes.

    Args:
        folder: Folder of the images.
        settings: Settings that replace the defaults.

    >>> read_fit("birds", ["pool=[avg, isqrt:iterations=3]", "size=320", "data.test_on=val"]).pool
    ('avg', 'isqrt:iterations=3')
    """
    return Fit(**read_settings(settings, data={"root": folder}))
