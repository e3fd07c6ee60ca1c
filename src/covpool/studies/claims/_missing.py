"""Running the experiments of claims that have no record yet."""

from collections.abc import Sequence

import torch

from covpool.studies.claims._arm import Arm
from covpool.studies.claims._claims import CLAIMS
from covpool.studies.claims._recorder import Recorder
from covpool.studies.claims._records import PATTERN, ArmResult, read_claims
from covpool.studies.claims._run import Runner, plan, run_arms
from covpool.studies.claims._verdict import Claim
from covpool.studies.claims._views import Subject, Views


def run_missing(
    recorder: Recorder, subjects: Sequence[Subject], claims: Sequence[Claim[Arm]], device: torch.device
) -> None:
    """Run what has no record, most important first, as far as the time allows.

    Args:
        recorder: Records the results.
        subjects: What the claims are tested on.
        claims: The claims.
        device: Device of the backbone and of the fits.
    """
    calibrated = frozenset(
        arm.name for claim in CLAIMS for one in claim.comparisons if one.measure == "calibration" for arm in one.arms
    )

    def failed(arm: Arm, error: Exception) -> None:
        recorder.tell(f"{arm.name}: failed: {type(error).__name__}: {error}")

    for subject in subjects:
        path, done = recorder.file(PATTERN, subject.name), 0
        arms = plan(claims, read_claims(recorder.folder).get(subject.name, {}))
        with recorder.counting(subject.name) as on_progress:
            if arms:
                runner = Runner(Views(subject, device, on_progress), calibrated)
                results = run_arms(runner, arms, recorder.seconds, failed)
                done = recorder.record(results, path, len(arms), on_progress, _in_words)
        recorder.tell(f"{subject.name}: {done} of {len(arms)} missing experiments done; records: {path}")


def _in_words(result: ArmResult) -> str:
    return f"{100 * result.top1:.1f} %, {result.seconds:.1f} s"
