"""The part of the page on trained networks that is made from the records."""

from collections.abc import Sequence
from statistics import mean

from covpool.studies.claims import ArmResult, ClaimRow, Results, held, make_sections, table
from covpool.studies.trained._arm import in_minutes, minutes
from covpool.studies.trained._claims import PRE_TRAINED_ON, SEEDS
from covpool.studies.trained._measured import SIZE, TIME
from covpool.studies.trained._scoreboard import TrainedRecords
from covpool.studies.trained._setting import SETTINGS, find_setting


def make_page(rows: Sequence[ClaimRow], records: TrainedRecords) -> str:
    """Write the page's tables in Markdown: scoreboard, accuracies, search, queue with its minutes, and every claim."""
    return "\n\n".join(
        [
            "## Scoreboard",
            _board(rows),
            "## Accuracies",
            _accuracies(records.claims),
            "## The search",
            _search(records.searches),
            "## The queue",
            _queue(records.claims),
            make_sections(rows, command),
        ]
    )


def command(row: ClaimRow) -> str:
    """Return the command that repeats the trainings or the measurement of a claim."""
    number = row.claim.number
    if number == TIME.number:
        return (
            "covpool bench --model torchvision/resnet50 --head isqrt --head mpn --batch 16 --batch 32 --batch 64 \\\n"
            "    --batch 128 --batch 256 --seconds 1 --json mine/steps.jsonl\n"
            f"covpool paper trained {number} --records mine"
        )
    if number == SIZE.number:
        return f"covpool paper trained {number} --run --records mine --data cub200=FOLDER --weights FILE"
    ((name, _),) = row.findings.items()
    weights = " --weights FILE" if find_setting(name).starts_from_weights else ""
    others = f" --data {PRE_TRAINED_ON}=FOLDER" if any(arm.starts_from for arm in row.claim.arms) else ""
    return (
        f"covpool paper trained {number} --run --records mine --data {name}=FOLDER \\\n"
        f"   {others}{weights} --setting data.cache=gpu"
    )


def _board(rows: Sequence[ClaimRow]) -> str:
    """The verdict on every claim where it is tested, and what is missing."""
    body = [
        [str(row.claim.number), row.claim.text, name, row.verdict(name), held(row, name), row.missing or "-"]
        for row in rows
        for name in row.findings or ("-",)
    ]
    return table(["", "claim", "tested on", "verdict", "comparisons that hold", "missing"], body)


def _accuracies(results: Results) -> str:
    rows = []
    for setting in SETTINGS:
        known = results.get(setting.data, {})
        for arm in dict.fromkeys(arm.with_seed(SEEDS[0]) for arm in setting.arms):
            found = [known[name] for seed in SEEDS if (name := arm.with_seed(seed).name) in known]
            if found:
                whole = len(found) == len(SEEDS) and all(one.converged for one in found)
                average = f"{100 * mean(one.top1 for one in found):.1f}" if whole else "-"
                rows.append([setting.data, f"`{arm.label}`", average, ", ".join(map(_accuracy, found))])
    return "\n\n".join([table(["data", "training", "mean %", "by seed"], rows), "A mean needs all three seeds."])


def _accuracy(result: ArmResult) -> str:
    return f"{100 * result.top1:.1f}" if result.converged else "diverged"


def _search(searched: Results) -> str:
    rows, left = [], []
    for setting in SETTINGS:
        found = searched.get(setting.data, {})
        rows += [
            [setting.data, f"`{label}`", f"{100 * top1:.1f}", str(seeds)]
            for label, seeds, top1 in setting.search.standing(found)
        ]
        if missing := setting.search.missing(found):
            left.append(f"{setting.data}, {setting.search.stage(found)}: {in_minutes(missing)}.")
    parts = [table(["data", "training", "held-out images, %", "seeds"], rows)] if rows else []
    return "\n\n".join([*parts, *([f"Not searched yet: {' '.join(left)}"] if left else [])])


def _queue(results: Results) -> str:
    """Trainings and minutes by claim. A training is counted once, for the first claim in the queue that needs it."""
    rows = []
    for setting in SETTINGS:
        seen, known = set[str](), results.get(setting.data, {})
        for claim in setting.claims:
            arms = [arm for arm in claim.arms if arm.name not in seen]
            seen |= {arm.name for arm in arms}
            counts = [
                cell
                for counted in (arms, [arm for arm in arms if arm.name not in known])
                for cell in (str(len(counted)), f"{minutes(counted):.0f}")
            ]
            rows.append([setting.data, str(claim.number), *counts])
    return table(["data", "claim", "new trainings", "minutes of an H200", "without a record", "minutes"], rows)
