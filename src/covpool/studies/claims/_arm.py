"""An arm: one fit on frozen features, or one evaluation of it, that a claim compares with others."""

from dataclasses import dataclass, fields, replace
from typing import Literal

from covpool.studies.probe import RANDOM_POOLS

Classifier = Literal["logistic", "svm", "prototypes", "spectrum"]


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A pool with everything that its accuracy depends on, besides the data set and the backbone.

    Attributes:
        pool: Pool, NAME or NAME:option=value:...; several joined by "+" average their log-probabilities.
        size: Image size in pixels.
        width: Channels after the PCA, for pools that have one.
        level: Module whose output is pooled; "" is the last features.
        stride: Whether the backbone keeps its last stride.
        flips: Whether the classifier is also fitted to flipped images.
        per_class: Training images per class; 0 is all.
        seed: Seed of the drawn training images and of random weights.
        classifier: "logistic" regression, linear "svm", class means ("prototypes"), or the "spectrum" of the test
            images, which has no accuracy.
        corruption: What is done to the test images; "" is nothing.
    """

    pool: str
    size: int = 224
    width: int = 256
    level: str = ""
    stride: bool = True
    flips: bool = False
    per_class: int = 0
    seed: int = 0
    classifier: Classifier = "logistic"
    corruption: str = ""

    @property
    def name(self) -> str:
        """The pool and the settings that differ from their defaults; identifies the arm in records.

        >>> Arm(pool="isqrt", size=320).name
        'isqrt size=320'
        """
        settings = [(field.name, getattr(self, field.name), field.default) for field in fields(self)[1:]]
        return " ".join([self.pool, *(f"{name}={value}" for name, value, usual in settings if value != usual)])

    @property
    def is_random(self) -> bool:
        """Whether the result depends on the seed."""
        return bool(self.per_class) or self.pool in RANDOM_POOLS

    @property
    def fit(self) -> "Arm":
        """The arm with the same fit, evaluated on clean test images."""
        return replace(self, corruption="")

    def with_seed(self, seed: int) -> "Arm":
        """The arm with another seed; an arm that does not depend on it stays the same."""
        return replace(self, seed=seed) if self.is_random else self
