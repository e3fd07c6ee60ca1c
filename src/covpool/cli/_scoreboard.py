"""Print claims and their verdicts, for frozen features and for trained networks."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.console import Console

from covpool._errors import CovpoolError
from covpool.cli._output import say, table

if TYPE_CHECKING:
    from covpool.studies.claims import Claim, ClaimRow

C = TypeVar("C", bound="Claim[Any]")


def choose_claims(numbers: list[int] | None, claims: Sequence[C]) -> list[C]:
    """Return the claims with these numbers, or all claims if no number is given."""
    known = [claim.number for claim in claims]
    unknown = [number for number in numbers or [] if number not in known]
    if unknown:
        raise CovpoolError(f"there is no claim {unknown[0]}; the claims are {sorted(known)}")
    return [claim for claim in claims if not numbers or claim.number in numbers]


def show_claims(
    rows: "list[ClaimRow]", names: list[str] | None, command: str, console: Console, *, each: bool, as_json: bool
) -> None:
    """Print the verdicts of claims in one table, or each claim with its comparisons.

    Args:
        rows: The claims.
        names: Names of the data sets; None if each claim is tested on its own.
        command: The command that shows one claim.
        console: Where to print.
        each: Whether to show the comparisons of each claim.
        as_json: Whether to print everything as JSON instead.
    """
    if as_json:
        typer.echo(json.dumps([row.as_json() for row in rows]))
    elif each:
        for row in rows:
            _show_claim(row, console)
    else:
        _show_scoreboard(rows, names, command, console)


def _show_scoreboard(rows: "list[ClaimRow]", names: list[str] | None, command: str, console: Console) -> None:
    headings: tuple[str, ...] = ("", "claim", "tested on", "verdict", "hold")
    cells: list[tuple[str, ...]] = []
    for row in rows:
        told = (str(row.claim.number), row.claim.text)
        if names is None:
            cells += [(*told, name, _verdict(row, name), row.counts(name)) for name in row.findings or ("-",)]
        else:
            cells.append((*told, *(cell for name in names for cell in (row.verdict(name), row.counts(name)))))
    if names is not None:
        headings = ("", "claim", *(cell for name in names for cell in (name, "hold")))
    made = table(headings, cells, left=len(headings))
    made.caption = f"hold: comparisons that hold, of those with records; `{command}` shows them"
    console.print(made)


def _show_claim(row: "ClaimRow", console: Console) -> None:
    say(console, f"{row.claim.number}. {row.claim.text}")
    if row.claim.paper:
        say(console, f"The paper: {row.claim.paper}.")
    for name, findings in row.findings.items():
        cells = [(one.comparison.text, one.points, one.verdict) for one in findings]
        console.print(table(("prediction", row.unit, "verdict"), cells, title=f"{name}: {row.verdict(name)}"))
    if row.missing:
        say(console, f"Missing: {row.missing}.")
    if row.claim.remark:
        say(console, row.claim.remark)


def _verdict(row: "ClaimRow", name: str) -> str:
    """The verdict, with what is missing."""
    return f"{row.verdict(name)}; missing: {row.missing}" if row.missing else row.verdict(name)


def show_search(data: str, rows: Sequence[tuple[str, int, float]], console: Console) -> None:
    """Print trainings with their seeds and their mean accuracies on held-out images."""
    cells = [[name, str(seeds), f"{100 * top1:.1f}"] for name, seeds, top1 in rows]
    console.print(table(("training", "seeds", "top-1, %"), cells, title=f"{data}: held-out training images"))
