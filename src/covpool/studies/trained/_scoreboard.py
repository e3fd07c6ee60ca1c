"""The records of trainings, and the scoreboard: the verdict on every claim, each where it is tested."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from covpool.studies.claims import Claim, ClaimRow, Results, read_claims, scoreboard
from covpool.studies.trained._arm import TrainedArm, in_minutes
from covpool.studies.trained._measured import MEASURED, examine_measured
from covpool.studies.trained._queue import PATTERN
from covpool.studies.trained._setting import SETTINGS, Setting

SEARCH_PATTERN = "search_*.jsonl"
ALL_CLAIMS: tuple[Claim[Any], ...] = (*(claim for setting in SETTINGS for claim in setting.claims), *MEASURED)


@dataclass(frozen=True)
class TrainedRecords:
    """What is known of the trainings.

    Attributes:
        claims: Records of the trainings that the claims compare.
        searches: Records of the search.
        outdated: Names of trainings, with their data set, whose records are left out: the recipes have other settings
            now.
    """

    claims: Results
    searches: Results
    outdated: tuple[str, ...]


def read_records(folder: Path, settings: Sequence[Setting] = SETTINGS) -> TrainedRecords:
    """Read the records in a folder. Those made with other settings than the recipes have now do not count."""
    claims, old = _current(read_claims(folder, PATTERN), {one.data: one.arms for one in settings})
    searches, older = _current(read_claims(folder, SEARCH_PATTERN), {one.data: one.search.possible for one in settings})
    return TrainedRecords(claims, searches, (*old, *older))


def _current(found: Results, arms: dict[str, Iterable[TrainedArm]]) -> tuple[Results, list[str]]:
    digests = {data: {arm.name: arm.digest for arm in asked} for data, asked in arms.items()}
    kept: Results = {}
    outdated = []
    for data, results in found.items():
        for name, result in results.items():
            if digests.get(data, {}).get(name) == result.settings:
                kept.setdefault(data, {})[name] = result
            else:
                outdated.append(f"{data}: {name}")
    return kept, outdated


def examine_claims(results: Results, folder: Path, claims: Collection[Claim[Any]] = ALL_CLAIMS) -> list[ClaimRow]:
    """Examine claims by the records, in the order of their numbers.

    Args:
        results: The records of trainings.
        folder: Folder of all records, those of measurements among them.
        claims: The claims.
    """
    settings = [setting.only(claims) for setting in SETTINGS]
    rows = [row for one in settings for row in scoreboard({one.data: results.get(one.data, {})}, one.claims)]
    rows = [replace(row, missing=_missing(row, results)) for row in rows]
    measured = examine_measured(folder, [claim for claim in MEASURED if claim in claims])
    return sorted([*rows, *measured], key=lambda row: row.claim.number)


def _missing(row: ClaimRow, results: Results) -> str:
    """The trainings without a record that a claim needs, and their time."""
    ((data, _),) = row.findings.items()
    arms = [arm for arm in row.claim.arms if arm.name not in results.get(data, {})]
    return in_minutes(arms) if arms else ""
