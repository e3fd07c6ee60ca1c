"""A setting: a data set with the claims that its trainings decide, and the search for the settings of its recipes."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from covpool._errors import CovpoolError, did_you_mean
from covpool.studies.claims import Claim
from covpool.studies.trained._arm import TrainedArm
from covpool.studies.trained._claims import CLAIMS
from covpool.studies.trained._from_scratch import FROM_SCRATCH, SEARCH_FROM_SCRATCH
from covpool.studies.trained._search import FINE_TUNING, Search


@dataclass(frozen=True)
class Setting:
    """Trainings on one data set.

    Attributes:
        data: Name of the data set, in the records and on the command line.
        claims: The claims that they decide, most important first.
        search: The trainings that choose the settings of the recipes, on held-out training images.
    """

    data: str
    claims: tuple[Claim[TrainedArm], ...]
    search: Search

    def only(self, claims: Collection[Claim[Any]]) -> "Setting":
        """The setting with those of its claims that are among `claims`."""
        return replace(self, claims=tuple(claim for claim in self.claims if claim in claims))

    @property
    def arms(self) -> list[TrainedArm]:
        """The trainings of the claims, each once, in the order of the queue."""
        return list(dict.fromkeys(arm for claim in self.claims for arm in claim.arms))

    @property
    def starts_from_weights(self) -> bool:
        """Whether its networks start from pre-trained weights."""
        return any(arm.resolved.init.pretrained for arm in self.arms)


SETTINGS = (
    Setting("cub200", CLAIMS, FINE_TUNING),
    Setting("tiny-imagenet-100", FROM_SCRATCH, SEARCH_FROM_SCRATCH),
)


def find_setting(data: str) -> Setting:
    """Return the setting of a data set.

    >>> find_setting("cub200").starts_from_weights, find_setting("tiny-imagenet-100").starts_from_weights
    (True, False)
    """
    known = {setting.data: setting for setting in SETTINGS}
    if data not in known:
        raise CovpoolError(
            f"no claim is tested by trainings on {data!r}{did_you_mean(data, known)}: name one of {', '.join(known)}"
        )
    return known[data]
