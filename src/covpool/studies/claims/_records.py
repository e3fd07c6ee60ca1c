"""The records of arms, lines of a file of JSON lines, and the scoreboard: the verdict on every claim by them."""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import covpool
from covpool._records import read_suite
from covpool.studies.claims._claims import CLAIMS
from covpool.studies.claims._verdict import Answers, Claim, Finding, Verdict, combine, examine, unpack

SUITE = "claims"
PATTERN = "claims_*.jsonl"


@dataclass(frozen=True, kw_only=True)
class ArmResult:
    """The result of an arm.

    Attributes:
        data: Name of the data set.
        arm: Name of the arm.
        top1: Accuracy on the test images.
        images: Number of test images.
        right: Which test images are classified correctly, packed by `pack`.
        confidence: Probability of the predicted class in steps of 1 / 255, a byte per image in base64; for the arms
            whose calibration is compared.
        calibration_error: Expected calibration error; None for scores that are not log-probabilities.
        held_out: Accuracy on held-out training images at the chosen penalty; None without a choice.
        penalty: Chosen penalty of logistic regression.
        penalties_tried: Cross-validated accuracy by penalty.
        converged: Whether logistic regression reached its tolerance, or the loss of a training stayed finite.
        length: Length of the vectors.
        ms_per_image: Time of reduction and pool, per test image.
        seconds: Time of the arm without its feature maps, or of the epochs of a training.
        spectra: Histograms of eigenvalues by what was done to them, for an arm that has no accuracy.
        settings: Digest of the settings of a training, which recipes may change.
    """

    data: str
    arm: str
    top1: float = 0.0
    images: int = 0
    right: str = ""
    confidence: str = ""
    calibration_error: float | None = None
    held_out: float | None = None
    penalty: float | None = None
    penalties_tried: dict[str, float] = field(default_factory=dict)
    converged: bool = True
    length: int = 0
    ms_per_image: float | None = None
    seconds: float = 0.0
    spectra: dict[str, Any] = field(default_factory=dict)
    settings: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the result as a line of the file, without what is not set."""
        told = {name: value for name, value in asdict(self).items() if value not in ("", None, {})}
        return {"suite": SUITE, **told}

    @property
    def answers(self) -> Answers:
        """What the arm answered on the test images."""
        levels = np.frombuffer(base64.b64decode(self.confidence), np.uint8).astype(np.float64) / 255
        return Answers(unpack(self.right, self.images), torch.from_numpy(levels))


Results = dict[str, dict[str, ArmResult]]  # by the name of the data set, then of the arm


def read_claims(folder: Path, pattern: str = PATTERN) -> Results:
    """Read all records of claims in the files of a folder. Of several records of an arm, the last one counts."""
    found: Results = {}
    for path in sorted(folder.glob(pattern)):
        for result in read_suite(path, ArmResult, SUITE):
            found.setdefault(result.data, {})[result.arm] = result
    return found


def records_folder() -> Path:
    """The folder of the records that come with covpool: in the package, or in the source tree."""
    package = Path(covpool.__file__).parent
    installed = package / "results"
    return installed if installed.is_dir() else package.parents[1] / "results"


def pack_confidence(values: Iterable[float]) -> str:
    """Write probabilities as bytes in base64."""
    levels = np.rint(255 * np.asarray(list(values))).astype(np.uint8)
    return base64.b64encode(levels.tobytes()).decode()


@dataclass(frozen=True)
class ClaimRow:
    """A claim with its findings by the name of the data set.

    Attributes:
        claim: The claim.
        findings: The findings.
        missing: What a claim that is not tested needs, or "".
    """

    claim: Claim[Any]
    findings: dict[str, list[Finding]]
    missing: str = ""

    def verdict(self, data: str) -> Verdict:
        """The verdict on a data set."""
        return combine(self.findings.get(data, []))

    @property
    def unit(self) -> str:
        """What the numbers of its findings are."""
        measured = any(finding.measured for found in self.findings.values() for finding in found)
        return "measured" if measured else "points, 95 %"

    def counts(self, data: str) -> str:
        """How many comparisons hold, of how many that have records.

        >>> ClaimRow(CLAIMS[0], {}).counts("cub200")
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
            "missing": self.missing,
            "results": {
                data: {"verdict": self.verdict(data), "comparisons": [_finding(finding) for finding in found]}
                for data, found in self.findings.items()
            },
        }


def scoreboard(results: Results, claims: Sequence[Claim[Any]] = CLAIMS) -> list[ClaimRow]:
    """Examine every claim on every data set with records, in the order of the claims' numbers."""
    answers = {
        data: {name: result.answers for name, result in arms.items() if result.images} for data, arms in results.items()
    }
    return [
        ClaimRow(claim, {data: [examine(one, found) for one in claim.comparisons] for data, found in answers.items()})
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
    if finding.measured:
        told["measured"] = finding.measured
    return told
