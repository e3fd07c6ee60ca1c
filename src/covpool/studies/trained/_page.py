"""The part of the page on trained networks that is made from the records."""

from collections.abc import Sequence
from statistics import mean
from typing import Any

from covpool.studies.claims import Claim, ClaimRow, Results, make_board, make_sections, table
from covpool.studies.trained._arm import TrainedArm
from covpool.studies.trained._claims import CLAIMS, NOT_TESTED, SEEDS
from covpool.studies.trained._search import best_first

MINUTES = {320: 1.1, 224: 0.6}  # of an H200 per training, if four run at once, by image size


def make_page(rows: Sequence[ClaimRow], results: Results, searched: Results) -> str:
    """Write the page's tables in Markdown: scoreboard, accuracies, search, queue with its minutes, and every claim."""
    names = list(results)
    left = [f"* Claim {number}: {reason}" for number, reason in NOT_TESTED.items()]
    return "\n\n".join(
        [
            make_board(rows, names),
            "## Accuracies",
            _accuracies(results),
            "## The search",
            _search(searched),
            "## The queue",
            _queue(results),
            "These claims have no trainings in the queue:\n\n" + "\n".join(left),
            make_sections(rows, names, command),
        ]
    )


def command(claim: Claim[Any]) -> str:
    """Return the command that repeats the trainings of a claim."""
    return (
        f"covpool paper trained {claim.number} --run --records mine --data cub200=FOLDER \\\n"
        "    --weights FILE --setting data.cache=gpu"
    )


def minutes(arms: Sequence[TrainedArm]) -> float:
    """Return the minutes that the trainings take on an H200."""
    return sum(MINUTES[224 if arm.size == 224 else 320] for arm in arms)


def _accuracies(results: Results) -> str:
    names, rows = list(results), []
    for arm in dict.fromkeys(arm.with_seed(SEEDS[0]) for claim in CLAIMS for arm in claim.arms):
        cells = []
        for name in names:
            known = [results[name].get(arm.with_seed(seed).name) for seed in SEEDS]
            found = [one.top1 for one in known if one is not None]
            each = ", ".join(f"{100 * top1:.1f}" for top1 in found)
            cells += [f"{100 * mean(found):.1f}" if found else "-", each or "-"]
        if set(cells) != {"-"}:
            rows.append([f"`{' '.join([arm.recipe, *arm.settings])}`", *cells])
    return table(["training", *(cell for name in names for cell in (f"{name}: mean %", "by seed"))], rows)


def _search(searched: Results) -> str:
    rows = [[name, f"`{arm}`", f"{100 * top1:.1f}"] for name in searched for arm, top1 in best_first(searched[name])]
    return (
        table(["data", "training", "held-out images, %"], rows) if rows else "No training of the search has a record."
    )


def _queue(results: Results) -> str:
    """Trainings and minutes by claim. A training is counted once, for the first claim in the queue that needs it."""
    rows, seen = [], set[str]()
    for claim in CLAIMS:
        arms = [arm for arm in claim.arms if arm.name not in seen]
        seen |= {arm.name for arm in arms}
        missing = [arm for arm in arms if any(arm.name not in known for known in results.values())]
        rows.append(
            [str(claim.number), str(len(arms)), f"{minutes(arms):.0f}", str(len(missing)), f"{minutes(missing):.0f}"]
        )
    return table(["claim", "new trainings", "minutes of an H200", "without a record", "minutes"], rows)
