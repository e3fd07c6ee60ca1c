"""The scoreboard: every claim with its findings and its verdict on every data set."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from covpool.studies.claims._claims import CLAIMS, Claim
from covpool.studies.claims._records import Results
from covpool.studies.claims._verdict import Finding, Verdict, combine, examine


@dataclass(frozen=True)
class Row:
    """A claim with its findings by the name of the data set."""

    claim: Claim
    findings: dict[str, list[Finding]]

    def verdict(self, data: str) -> Verdict:
        """The verdict on a data set."""
        return combine(self.findings.get(data, []))

    def counts(self, data: str) -> str:
        """How many comparisons hold, of how many that have records.

        >>> Row(CLAIMS[0], {}).counts("cub200")
        '0 of 0'
        """
        tested = [finding for finding in self.findings.get(data, []) if finding.verdict != "not tested"]
        return f"{sum(finding.verdict == 'confirmed' for finding in tested)} of {len(tested)}"

    def as_json(self) -> dict[str, Any]:
        """Return the row for programs; differences are in points of accuracy."""
        return {
            "claim": self.claim.number,
            "title": self.claim.title,
            "text": self.claim.text,
            "paper": self.claim.paper,
            "remark": self.claim.remark,
            "results": {
                data: {"verdict": self.verdict(data), "comparisons": [_finding(finding) for finding in found]}
                for data, found in self.findings.items()
            },
        }


def scoreboard(results: Results, claims: Sequence[Claim] = CLAIMS) -> list[Row]:
    """Examine every claim on every data set with records, in the order of the claims' numbers."""
    answers = {
        data: {name: result.answers for name, result in arms.items() if result.images} for data, arms in results.items()
    }
    return [
        Row(claim, {data: [examine(one, found) for one in claim.comparisons] for data, found in answers.items()})
        for claim in sorted(claims, key=lambda claim: claim.number)
    ]


def _finding(finding: Finding) -> dict[str, Any]:
    told: dict[str, Any] = {
        "text": finding.comparison.text,
        "rule": finding.comparison.rule,
        "arms": [arm.name for arm in finding.comparison.arms],
        "verdict": finding.verdict,
    }
    if finding.interval is not None and finding.difference is not None:
        low, high = finding.interval
        told |= {"points": round(100 * finding.difference, 2), "interval": [round(100 * low, 2), round(100 * high, 2)]}
    return told
