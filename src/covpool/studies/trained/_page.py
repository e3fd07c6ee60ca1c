"""The part of the page on trained networks that is made from the records."""

from collections.abc import Sequence
from statistics import mean

from covpool.studies.claims import ClaimRow, Results, held, make_sections, table
from covpool.studies.trained._arm import TrainedArm, minutes
from covpool.studies.trained._claims import SEEDS
from covpool.studies.trained._measured import SIZE, TIME
from covpool.studies.trained._search import best_first
from covpool.studies.trained._setting import SETTINGS, Setting, find_setting


def make_page(rows: Sequence[ClaimRow], results: Results, searched: Results) -> str:
    """Write the page's tables in Markdown: scoreboard, accuracies, search, queue with its minutes, and every claim."""
    return "\n\n".join(
        [
            "## Scoreboard",
            _board(rows),
            "## Accuracies",
            _accuracies(results),
            "## The search",
            _search(searched),
            "## The queue",
            _queue(results),
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
    return (
        f"covpool paper trained {number} --run --records mine --data {name}=FOLDER \\\n"
        f"   {weights} --setting data.cache=gpu"
    )


def _board(rows: Sequence[ClaimRow]) -> str:
    """The verdict on every claim where it is tested."""
    body = [
        [str(row.claim.number), row.claim.text, name, row.verdict(name), held(row, name)]
        for row in rows
        for name in row.findings or ("-",)
    ]
    return table(["", "claim", "tested on", "verdict", "comparisons that hold"], body)


def _accuracies(results: Results) -> str:
    rows = []
    for setting in SETTINGS:
        known = results.get(setting.data, {})
        for arm in dict.fromkeys(arm.with_seed(SEEDS[0]) for arm in _arms(setting)):
            found = [known[name].top1 for seed in SEEDS if (name := arm.with_seed(seed).name) in known]
            if found:
                each = ", ".join(f"{100 * top1:.1f}" for top1 in found)
                rows.append([setting.data, f"`{arm.label}`", f"{100 * mean(found):.1f}", each])
    return table(["data", "training", "mean %", "by seed"], rows)


def _search(searched: Results) -> str:
    rows = [
        [setting.data, f"`{arm}`", f"{100 * top1:.1f}"]
        for setting in SETTINGS
        for arm, top1 in best_first(setting.tried, searched.get(setting.data, {}))
    ]
    left = [
        f"{setting.data}: {len(setting.tried)} trainings, {minutes(setting.tried):.0f} minutes of an H200."
        for setting in SETTINGS
        if setting.data not in searched
    ]
    parts = [table(["data", "training", "held-out images, %"], rows)] if rows else []
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


def _arms(setting: Setting) -> list[TrainedArm]:
    return [arm for claim in setting.claims for arm in claim.arms]
