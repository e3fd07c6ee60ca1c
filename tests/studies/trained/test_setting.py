"""Claims belong to a data set, and the command runs those of the data sets that it is given."""

from collections import Counter

import pytest

from covpool import CovpoolError
from covpool.studies.trained import SETTINGS, find_setting
from covpool.studies.trained._arm import minutes
from covpool.studies.trained._setting import Setting


def test_every_claim_has_one_data_set() -> None:
    counts = Counter(claim.number for setting in SETTINGS for claim in setting.claims)
    assert set(counts.values()) == {1}
    assert [setting.data for setting in SETTINGS] == ["cub200", "tiny-imagenet-100"]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.data)
def test_the_minutes_of_every_training_are_known(setting: Setting) -> None:
    assert minutes([*setting.arms, *setting.search.possible]) > 20
    assert setting.arms[0].minutes == setting.arms[0].with_seed(7).minutes


def test_a_choice_of_claims_keeps_the_rest_of_the_setting() -> None:
    setting = SETTINGS[0]
    first, second, *_ = setting.claims
    chosen = setting.only([second, first, *SETTINGS[1].claims])
    assert chosen.claims == (first, second) and chosen.search == setting.search


def test_other_data_sets_are_refused() -> None:
    with pytest.raises(
        CovpoolError, match=r"on 'cub20' \(did you mean 'cub200'\?\): name one of cub200, tiny-imagenet"
    ):
        find_setting("cub20")
