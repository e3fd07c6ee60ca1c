"""The claims as data."""

from covpool.pools import list_pools
from covpool.studies._pool_labels import split_label
from covpool.studies.claims import CLAIMS, plan

NUMBERS = {1, 2, 3, 4, 5, 7, 8, 12, 13, 15, 18, 19, 21, 22, 23, 24, 25}


def test_every_claim_is_there_once_and_says_why_it_has_no_experiment() -> None:
    assert sorted(claim.number for claim in CLAIMS) == sorted(NUMBERS)
    assert [claim.number for claim in CLAIMS if not claim.comparisons] == [24]
    assert all(claim.comparisons or claim.remark for claim in CLAIMS)


def test_every_difference_compares_as_much_as_it_is_compared_with() -> None:
    for claim in CLAIMS:
        for comparison in claim.comparisons:
            assert sum(weight for weight, _ in comparison.terms) == 0, comparison.text
            protocols = {(arm.flips, arm.per_class) for arm in comparison.arms}
            assert len(protocols) == 1, f"{comparison.text}: the arms must be fitted to the same images"


def test_arms_name_pools_that_exist_and_have_one_name_each() -> None:
    arms = plan(CLAIMS, {})
    assert len({arm.name for arm in arms}) == len(arms)
    assert {split_label(pool, "pool")[0] for arm in arms for pool in arm.pool.split("+")} == set(list_pools())
