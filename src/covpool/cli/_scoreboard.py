"""Claims with verdicts on the terminal, on frozen features and on trained networks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console

from covpool._errors import CovpoolError
from covpool.cli._output import say, table

if TYPE_CHECKING:
    from covpool.studies.claims import Claim, ClaimRow

C = TypeVar("C", bound="Claim[Any]")


def choose_claims(numbers: list[int] | None, claims: Sequence[C]) -> list[C]:
    """Return the claims with these numbers; all if none are given."""
    known = [claim.number for claim in claims]
    unknown = [number for number in numbers or [] if number not in known]
    if unknown:
        raise CovpoolError(f"there is no claim {unknown[0]}; the claims are {sorted(known)}")
    return [claim for claim in claims if not numbers or claim.number in numbers]


def named_folder(asked: str) -> tuple[str, str]:
    """Split NAME=FOLDER.

    >>> named_folder("cub200=/data/cub")
    ('cub200', '/data/cub')
    """
    name, equals, folder = asked.partition("=")
    if not equals or not name or not folder:
        raise CovpoolError(f"--data must be NAME=FOLDER, as in cub200=/data/cub; got {asked!r}")
    return name, folder


def show_scoreboard(rows: "list[ClaimRow]", names: list[str], command: str, console: Console) -> None:
    """Print the verdict on every claim, and the command that shows the comparisons of one."""
    headings = ("", "claim", *(cell for name in names for cell in (name, "hold")))
    cells = [
        (
            str(row.claim.number),
            row.claim.text,
            *(cell for name in names for cell in (row.verdict(name), row.counts(name))),
        )
        for row in rows
    ]
    made = table(headings, cells, left=len(headings))
    made.caption = f"hold: comparisons that hold, of those with records; `{command}` shows them"
    console.print(made)


def show_claim(row: "ClaimRow", console: Console) -> None:
    """Print a claim with its comparisons, their differences and verdicts."""
    say(console, f"{row.claim.number}. {row.claim.text}")
    if row.claim.paper:
        say(console, f"The paper: {row.claim.paper}.")
    for name, findings in row.findings.items():
        cells = [(one.comparison.text, one.points, one.verdict) for one in findings]
        console.print(table(("prediction", "points, 95 %", "verdict"), cells, title=f"{name}: {row.verdict(name)}"))
    if row.claim.remark:
        say(console, row.claim.remark)
