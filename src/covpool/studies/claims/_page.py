"""The part of the page on evidence that is made from the records."""

from collections.abc import Callable, Sequence

import torch

from covpool._errors import CovpoolError
from covpool.studies.claims._arm import Arm
from covpool.studies.claims._claims import ALPHAS, ITERATIONS, PER_CLASS, SIZES, WIDTHS
from covpool.studies.claims._plots import plot_names
from covpool.studies.claims._records import ArmResult, ClaimRow, Results
from covpool.studies.claims._verdict import in_points, paired_interval

BEGIN, END = "<!-- made from the records: begin -->", "<!-- made from the records: end -->"
NOTHING = "-"
Cells = Sequence[str]


def update_page(text: str, made: str) -> str:
    """Replace the part of a page between its two marks.

    >>> update_page(f"a {BEGIN} old {END} b", "new") == f"a {BEGIN}\\n\\nnew\\n\\n{END} b"
    True
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise CovpoolError(f"the page must have the lines {BEGIN} and {END}; one is missing: add both")
    return f"{before}{BEGIN}\n\n{made.strip()}\n\n{END}{after}"


def make_page(rows: Sequence[ClaimRow], results: Results) -> str:
    """Write the scoreboard, the tables of the sweeps, and a section for every claim, in Markdown."""
    parts = [_board(rows, list(results)), "## The sweeps", _sweeps(results), *_figures(results)]
    return "\n\n".join([*parts, _unconverged(results), make_sections(rows, command)])


def _board(rows: Sequence[ClaimRow], names: Sequence[str]) -> str:
    """Write the scoreboard: the verdict on every claim on the data sets with these names."""
    board = [
        [str(row.claim.number), row.claim.text if row.claim.paper else f"{row.claim.text} (ours)"]
        + [cell for name in names for cell in (row.verdict(name), held(row, name))]
        for row in rows
    ]
    headings = ["", "claim", *(cell for name in names for cell in (name, "comparisons that hold"))]
    return "\n\n".join(["## Scoreboard", table(headings, board)])


def make_sections(rows: Sequence[ClaimRow], command: Callable[[ClaimRow], str]) -> str:
    """Write a section for every claim, each with the command that repeats it."""
    return "\n\n".join(["## Claim by claim", *(_section(row, command(row)) for row in rows)])


def _unconverged(results: Results) -> str:
    """Name the experiments whose classifier did not converge."""
    found = [f"`{arm}` on {name}" for name, arms in results.items() for arm, one in arms.items() if not one.converged]
    return f"Classifiers that did not converge: {', '.join(found) or 'none'}."


def held(row: ClaimRow, name: str) -> str:
    """How many comparisons hold on a data set; "-" if none has a record."""
    counted = row.counts(name)
    return NOTHING if counted.endswith("of 0") else counted


def _section(row: ClaimRow, command: str) -> str:
    claim, names = row.claim, list(row.findings)
    lines = [f"### {claim.number}. {claim.title[0].upper()}{claim.title[1:]}", f"{claim.text}"]
    lines += [f"The paper: {claim.paper}."] if claim.paper else []
    if claim.comparisons:
        found = zip(*(row.findings[name] for name in names), strict=True) if names else []
        body = [
            [findings[0].comparison.text, *(cell for one in findings for cell in (one.points, one.verdict))]
            for findings in found
        ] or [[comparison.text] for comparison in claim.comparisons]
        headings = ["prediction", *(cell for name in names for cell in (f"{name}: {row.unit}", "verdict"))]
        lines.append(table(headings, body))
    lines += [claim.remark] if claim.remark else []
    lines += [f"```\n{command}\n```"] if claim.comparisons else []
    return "\n\n".join(lines)


def command(row: ClaimRow) -> str:
    """Return the command that repeats the experiments of a claim."""
    return f"covpool paper claims {row.claim.number} --run --records mine --data cub200=FOLDER --weights FILE"


def _sweeps(results: Results) -> str:
    """Tables of accuracies along one setting, and of the gain over average pooling."""
    avg, isqrt = Arm(pool="avg"), Arm(pool="isqrt")
    powers = [(f"{alpha:g}", Arm(pool=f"mpn:alpha={alpha}")) for alpha in ALPHAS]
    powers += [("0.5", Arm(pool="mpn")), ("1 (plain covariance)", Arm(pool="cov"))]
    steps = [(str(n), Arm(pool=f"isqrt:iterations={n}")) for n in ITERATIONS]
    steps += [("5", isqrt), ("exact (MPN-COV)", Arm(pool="mpn"))]
    sizes = sorted((*SIZES, 224))
    pairs = {
        "image size, px (with flips)": [
            (str(size), Arm(pool="isqrt", size=size, flips=True), Arm(pool="avg", size=size, flips=True))
            for size in sizes
        ],
        "image size, px": [
            (str(size), Arm(pool="isqrt", size=size), Arm(pool="avg", size=size)) for size in sizes
        ],
        "images per class": [
            (str(count or "all"), Arm(pool="isqrt", per_class=count), Arm(pool="avg", per_class=count))
            for count in (*PER_CLASS, 0)
        ],
        "channels": [(str(width), Arm(pool="isqrt", width=width), avg) for width in WIDTHS],
    }  # fmt: skip
    tables = [
        _accuracies("alpha", sorted(powers, key=lambda row: float(row[0].split()[0])), results),
        _accuracies("N", sorted(steps, key=lambda row: float(row[0]) if row[0].isdigit() else 99), results),
        *(_gains(what, rows, results) for what, rows in pairs.items()),
    ]
    return "\n\n".join(table for table in tables if table)


def _figures(results: Results) -> list[str]:
    """The plots that `plot_claims` draws from these records, and that of the pools' time per image."""
    names = plot_names(results)
    shown = [f"![{caption}](img/claims_{name}.png)" for name, caption in names.items()]
    return [*shown, "![Accuracy against time per image, all pools](img/probe_cub200_224.png)"]


def _accuracies(what: str, rows: Sequence[tuple[str, Arm]], results: Results) -> str:
    names = list(results)
    body = [
        [label, *(_percent(results[name].get(arm.name)) for name in names)]
        for label, arm in rows
        if any(arm.name in results[name] for name in names)
    ]
    return table([what, *(f"{name}, top-1 %" for name in names)], body) if body else ""


def _gains(what: str, rows: Sequence[tuple[str, Arm, Arm]], results: Results) -> str:
    names, body = list(results), []
    for label, first, second in rows:
        cells = [cell for name in names for cell in _gain_cells(results[name], first, second)]
        if set(cells) != {NOTHING}:
            body.append([label, *cells])
    headings = [what, *(cell for name in names for cell in (f"{name}: avg %", "isqrt %", "gain, 95 %"))]
    return table(headings, body) if body else ""


def _gain_cells(arms: dict[str, ArmResult], first: Arm, second: Arm) -> Cells:
    found = gain(arms, first, second)
    if found is None:
        return (NOTHING,) * 3
    interval, a, b = found
    return f"{100 * b:.1f}", f"{100 * a:.1f}", in_points(a - b, interval)


def gain(arms: dict[str, ArmResult], first: Arm, second: Arm) -> tuple[tuple[float, float], float, float] | None:
    """Return the paired interval of the difference of two arms over all recorded seeds, and both mean accuracies."""
    seeds = [seed for seed in range(10) if {first.with_seed(seed).name, second.with_seed(seed).name} <= arms.keys()]
    seeds = seeds if first.is_random or second.is_random else seeds[:1]
    if not seeds:
        return None
    a, b = (torch.stack([arms[arm.with_seed(s).name].answers.right for s in seeds]) for arm in (first, second))
    return paired_interval(a - b), float(a.mean()), float(b.mean())


def _percent(result: ArmResult | None) -> str:
    return NOTHING if result is None else f"{100 * result.top1:.1f}"


def table(headings: Cells, rows: Sequence[Cells]) -> str:
    """Write a table in Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
