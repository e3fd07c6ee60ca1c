"""The claims that no training decides: the time of a training step, and the size of gradients.

A comparison holds if it holds in every measurement, and is contradicted if it holds in none.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from covpool._records import read_lines
from covpool.studies.claims import Claim, ClaimRow, Comparison, Finding, Verdict
from covpool.studies.trained._gradients import GRADIENTS

STEPS = "steps"  # suite of `covpool bench --model`
BATCHES = (16, 32, 64, 128, 256)
ABOUT = (1e-6, 1e-4)  # "about 1e-5"

TIME: Claim[Any] = Claim(
    14, "training time", "iSQRT-COV trains faster than MPN-COV by eigen-decomposition.",
    tuple(Comparison(f"a training step takes less time, {batch} images", ()) for batch in BATCHES),
    "figure 6c, images per second of AlexNet against the batch size; we have no numbers of it",
    remark="Measured are whole training steps under CUDA-graph replay, as in `covpool train`. The numbers are the time "
    "with MPN-COV divided by that with iSQRT-COV, over all runs with both. MPN-COV uses covpool's batched "
    "eigen-decomposition, which is faster than the one of the paper.",
)  # fmt: skip
SIZE: Claim[Any] = Claim(
    20, "gradients without post-compensation", "Without post-compensation the gradients shrink to about 1e-5 of "
    "their size.",
    (Comparison("smaller without post-compensation", ()), Comparison("about 1e-5 of their size", ())),
    "ResNet-50 does not converge without post-compensation; gradients on the order of 1e-5",
    remark="Measured are the gradients in the features of the pre-trained backbone, at the first step with a new "
    "reduction, pool and classifier. The numbers are the ratio of their norms without and with post-compensation, over "
    "several batches. Post-compensation multiplies by the root of the trace of the covariance, which is about the "
    "inverse of this ratio. The 1e-5 may be an absolute size: the records have the root mean square of both gradients.",
)  # fmt: skip
MEASURED = (TIME, SIZE)


def examine_measured(records: Path, claims: Sequence[Claim[Any]] = MEASURED) -> list[ClaimRow]:
    """Decide these claims by the records in a folder."""
    lines = [line for path in sorted(records.glob("*.jsonl")) for line in read_lines(path)]
    found = {TIME: _examine_time(lines), SIZE: _examine_size(lines)}
    return [ClaimRow(claim, found[claim]) for claim in claims if claim in found]


def _examine_time(lines: Sequence[Mapping[str, Any]]) -> dict[str, list[Finding]]:
    """Findings by device and backbone. Two steps are compared if one run measured both."""
    steps: dict[tuple[Any, ...], list[dict[str, float]]] = {}
    for line in lines:
        if line.get("suite") == STEPS and "graph_ms" in line["extra"]:
            backbone, _, head = line["name"].rpartition(" ")
            run = (line["commit"], line["command"], line.get("torch"), line.get("matmul_precision"))
            runs = steps.setdefault((f"{line['device']}, {backbone}", line["shape"][0], *run), [{}])
            if head in runs[-1]:  # the same command once more
                runs.append({})
            runs[-1][head] = line["extra"]["graph_ms"]
    ratios: dict[str, dict[int, list[float]]] = {}
    for (where, batch, *_), runs in steps.items():
        found = [heads["mpn"] / heads["isqrt"] for heads in runs if {"isqrt", "mpn"} <= heads.keys()]
        if found:
            ratios.setdefault(where, {}).setdefault(batch, []).extend(found)
    return {
        where: [
            _decide(comparison, by_batch.get(batch, []), [ratio > 1 for ratio in by_batch.get(batch, [])], "runs")
            for comparison, batch in zip(TIME.comparisons, BATCHES, strict=True)
        ]
        for where, by_batch in ratios.items()
    }


def _examine_size(lines: Sequence[Mapping[str, Any]]) -> dict[str, list[Finding]]:
    """Findings by data set, by its last record."""
    last = {line["data"]: [*map(float, line["ratios"])] for line in lines if line.get("suite") == GRADIENTS}
    smaller, tiny = SIZE.comparisons
    return {
        data: [
            _decide(smaller, ratios, [ratio < 1 for ratio in ratios], "batches"),
            _decide(tiny, ratios, [ABOUT[0] <= ratio <= ABOUT[1] for ratio in ratios], "batches"),
        ]
        for data, ratios in last.items()
    }


def _decide(comparison: Comparison[Any], values: Sequence[float], holds: Sequence[bool], what: str) -> Finding:
    if not values:
        return Finding(comparison, None, None, "not tested")
    decided: Verdict = "confirmed" if all(holds) else "not confirmed at this scale" if any(holds) else "contradicted"
    told = f"{mean(values):.3g} ({min(values):.3g} to {max(values):.3g}, {len(values)} {what})"
    return Finding(comparison, None, None, decided, told)
