"""Claims about time and gradients are decided by all measurements together."""

import json
from pathlib import Path
from typing import Any

import pytest

from covpool._records import append_lines
from covpool.studies.claims import records_folder
from covpool.studies.trained import SIZE
from covpool.studies.trained._measured import BATCHES, MEASURED, TIME, examine_measured


def write(folder: Path, *lines: dict[str, Any]) -> Path:
    (folder / "mine.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def step(head: str, ms: float, *, batch: int = 16, commit: str = "a", **changes: Any) -> dict[str, Any]:
    where = {"device": "GPU", "commit": commit, "command": "covpool bench"}
    told = {"suite": "steps", "name": f"torchvision/resnet50 {head}", "shape": [batch, 3, 224, 224]}
    return {**told, **where, "extra": {"graph_ms": ms}, **changes}


def gradients(*ratios: float, data: str = "birds") -> dict[str, Any]:
    return {"suite": "gradients", "data": data, "ratios": ratios}


def test_steps_of_one_run_are_compared_in_every_run(tmp_path: Path) -> None:
    lines = [step(head, ms, batch=batch) for batch in BATCHES for head, ms in (("isqrt", 10.0), ("mpn", 12.0))]
    (row,) = examine_measured(write(tmp_path, *lines, step("avg", 9.0)), [TIME])
    assert row.verdict("GPU, torchvision/resnet50") == "confirmed" and row.unit == "measured"
    slow = [step("isqrt", 10.0, commit="b"), step("mpn", 9.0, commit="b"), step("mpn", 1.0, commit="c")]
    (row,) = examine_measured(write(tmp_path, *lines, *slow), [TIME])
    first, second, *_ = row.findings["GPU, torchvision/resnet50"]
    assert (first.verdict, second.verdict) == ("not confirmed at this scale", "confirmed")
    assert first.points == "1.05 (0.9 to 1.2, 2 runs)" and second.points == "1.2 (1.2 to 1.2, 1 runs)"


def test_the_same_command_twice_is_two_runs(tmp_path: Path) -> None:
    once = [step(head, ms, batch=batch) for batch in BATCHES for head, ms in (("isqrt", 10.0), ("mpn", 12.0))]
    again = [step("isqrt", 10.0), step("mpn", 14.0)]
    newer = [step("mpn", 1.0, torch="3.0")]
    (row,) = examine_measured(write(tmp_path, *once, *again, *newer), [TIME])
    assert row.findings["GPU, torchvision/resnet50"][0].points == "1.3 (1.2 to 1.4, 2 runs)"


def test_a_batch_size_without_both_heads_leaves_the_claim_untested(tmp_path: Path) -> None:
    on_cpu = [step(head, 0, batch=32, extra={}) for head in ("isqrt", "mpn")]
    (row,) = examine_measured(write(tmp_path, step("isqrt", 10.0), step("mpn", 12.0), *on_cpu), [TIME])
    assert row.verdict("GPU, torchvision/resnet50") == "not tested"


@pytest.mark.parametrize(
    ("ratios", "verdicts"),
    [
        ((1e-5, 2e-6), ("confirmed", "confirmed")),
        ((1e-5, 0.1), ("confirmed", "not confirmed at this scale")),
        ((0.2, 0.1), ("confirmed", "contradicted")),
        ((2.0, 3.0), ("contradicted", "contradicted")),
    ],
)
def test_the_ratio_of_gradients_decides(ratios: tuple[float, ...], verdicts: tuple[str, str], tmp_path: Path) -> None:
    (row,) = examine_measured(write(tmp_path, gradients(7.0), gradients(*ratios)), [SIZE])
    assert tuple(finding.verdict for finding in row.findings["birds"]) == verdicts


def test_a_ratio_that_is_not_finite_does_not_hold(tmp_path: Path) -> None:
    append_lines(tmp_path / "mine.jsonl", gradients(1e-5, float("nan")))
    (row,) = examine_measured(tmp_path, [SIZE])
    assert row.verdict("birds") == "not confirmed at this scale"
    assert row.findings["birds"][0].points.startswith("nan (")


def test_without_records_nothing_is_claimed(tmp_path: Path) -> None:
    rows = examine_measured(tmp_path)
    assert [row.claim for row in rows] == list(MEASURED) and not any(row.findings for row in rows)


def test_the_records_that_come_with_covpool_decide_the_time() -> None:
    (row,) = examine_measured(records_folder(), [TIME])
    assert row.verdict("NVIDIA H200, torchvision/resnet50") == "confirmed"
