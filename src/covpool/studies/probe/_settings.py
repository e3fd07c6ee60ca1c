"""The settings of a probe: the backbone, the pools, and the protocol under which all pools are compared."""

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from pydantic import field_validator as check_field
from pydantic import model_validator as check_table

import covpool
from covpool._errors import CovpoolError
from covpool._settings import Options, Seed, Settings
from covpool.data import Augment, Data
from covpool.recipe import listed, read_settings
from covpool.studies._pool_labels import split_label

EVERY_POOL = "all"


class Probe(Settings):
    """A comparison of pools on the frozen features of one backbone, under the same protocol for every pool."""

    IS_TABLE: ClassVar[bool] = False

    backbone: str = ""
    """Name of the backbone: "resnet50" of timm, or "torchvision/resnet50"."""
    backbone_options: Options = Field(default_factory=dict)
    """Further arguments of the function that builds the backbone."""
    weights: str = ""
    """File with weights of the backbone."""
    pretrained: bool | None = None
    """Whether to use the weights that timm or torchvision offer. Unset: yes, unless `weights` names a file."""
    keep_last_stride: bool = True
    """Whether the last stage of the backbone keeps its stride, as in its training."""
    size: NonNegativeInt = 0
    """Height and width of the input; 0 is the size that the backbone was trained with."""
    pools: tuple[str, ...] = ("avg", "bcnn", "cov", "isqrt", "mpn", "gaussian")
    """Pools to compare: NAME, NAME:option=value:..., or "all"."""
    reduce_to: NonNegativeInt = 256
    """Channels after the reduction; 0 turns it off. With logistic regression, `pca_options` gives some pools others."""
    classifier: Literal["logistic", "sgd"] = "logistic"
    """"logistic" is fitted to convergence, after a PCA. "sgd" trains reduction, pool and classifier."""
    epochs: PositiveInt = 10
    """Number of epochs."""
    batch_size: PositiveInt = 32
    """Images per step."""
    lr: tuple[PositiveFloat, ...] = (0.01, 0.1, 1.0)
    """Learning rates to try. The best one for each pool is chosen on held-out training images."""
    extend_lr: NonNegativeInt = 2
    """Number of further learning rates to try while the best one is the smallest or the largest."""
    refine_lr: bool = True
    """Whether to try also the learning rates halfway between the best one and its neighbors."""
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.25
    """Fraction of the training images that is held out to choose the learning rate."""
    folds: PositiveInt = 2
    """Number of held-out parts, each used once with its own seed."""
    momentum: NonNegativeFloat = 0.9
    """Momentum of SGD."""
    weight_decay: NonNegativeFloat = 1e-4
    """Weight decay."""
    warmup_epochs: NonNegativeFloat = 1.0
    """Epochs of linear warm-up before the cosine schedule."""
    clip_norm: NonNegativeFloat = 5.0
    """Largest norm of the gradient; 0 turns clipping off."""
    head_factor: NonNegativeFloat = 1.0
    """Factor on the learning rate of the classifier."""
    descriptors: PositiveInt = 20_000
    """Number of descriptors for pools that are initialized from data."""
    seeds: tuple[Seed, ...] = (0, 1, 2)
    """Seeds. SGD trains every pool once with each; logistic regression repeats only pools whose weights stay random."""
    maps: Literal["fp16", "bf16", "fp32"] = "fp16"
    """Precision in which feature maps are kept."""
    keep: Literal["device", "ram"] = "device"
    """Where feature maps are kept."""
    cache: str = ""
    """Folder that keeps feature maps on disk for the next probe."""
    data: Data = Data()
    augment: Augment = Augment()
    """Only size, resize, mean, std and interpolation are used. What is not set is as the backbone expects it."""

    @check_field("pools", mode="before")
    @classmethod
    def _split_pools(cls, value: Any) -> Any:
        """Accept a list of names without quotes, and a single name."""
        if not isinstance(value, str):
            return value
        names = listed(value)
        return [str(value)] if names is None else names

    @check_table(mode="after")
    def _check_together(self) -> Self:
        if not self.backbone:
            raise CovpoolError(
                "no backbone is named: set backbone=..., as in backbone=resnet50 or torchvision/mobilenet_v2"
            )
        if self.weights and self.pretrained:
            raise CovpoolError("`weights` and `pretrained` both give weights: choose one")
        if self.held_out * self.folds > 1:
            raise CovpoolError(
                f"`held_out` times `folds` must be at most 1, all training images; got {self.held_out} and {self.folds}"
            )
        for name in ("pools", "seeds", "lr"):
            if not getattr(self, name):
                raise CovpoolError(f"`{name}` must have at least one value; got []")
        chosen_pools(self)
        return self

    @property
    def uses_pretrained(self) -> bool:
        """Whether the library's weights are used."""
        return not self.weights if self.pretrained is None else self.pretrained


def read_probe(settings: Iterable[str]) -> Probe:
    """Read a probe from settings typed as "key=value". Names of pools need no quotes.

    >>> read_probe(["backbone=resnet18", "pools=[avg, isqrt:iterations=3]", "augment.size=160"]).pools
    ('avg', 'isqrt:iterations=3')
    """
    return Probe(**read_settings(settings))


def chosen_pools(probe: Probe) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the name and the options of each pool by its label. "all" stands for every registered pool.

    >>> chosen_pools(Probe(backbone="resnet18", pools=("avg", "isqrt:iterations=3")))["isqrt:iterations=3"]
    ('isqrt', {'iterations': 3})
    """
    labels = [name for label in probe.pools for name in (covpool.list_pools() if label == EVERY_POOL else [label])]
    return {label: split_label(label, "pools") for label in dict.fromkeys(labels)}
