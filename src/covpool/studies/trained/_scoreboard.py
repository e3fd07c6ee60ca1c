"""The scoreboard: the verdict on every claim, each where it is tested."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from covpool.studies.claims import Claim, ClaimRow, Results, scoreboard
from covpool.studies.trained._measured import MEASURED, examine_measured
from covpool.studies.trained._setting import SETTINGS

ALL_CLAIMS: tuple[Claim[Any], ...] = (*(claim for setting in SETTINGS for claim in setting.claims), *MEASURED)


def examine_claims(results: Results, folder: Path, claims: Collection[Claim[Any]] = ALL_CLAIMS) -> list[ClaimRow]:
    """Examine claims by the records, in the order of their numbers.

    Args:
        results: The records of trainings.
        folder: Folder of all records, those of measurements among them.
        claims: The claims.
    """
    settings = [setting.only(claims) for setting in SETTINGS]
    rows = [row for one in settings for row in scoreboard({one.data: results.get(one.data, {})}, one.claims)]
    measured = examine_measured(folder, [claim for claim in MEASURED if claim in claims])
    return sorted([*rows, *measured], key=lambda row: row.claim.number)
