"""The page on evidence agrees with the records."""

import re
from pathlib import Path

import pytest

from covpool._errors import CovpoolError
from covpool.studies.claims import CLAIMS, ClaimRow, make_page, plot_claims, read_claims, scoreboard, update_page
from covpool.studies.claims._records import PATTERN, records_folder

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def rows() -> list[ClaimRow]:
    return scoreboard(read_claims(ROOT / "results"))


def test_the_page_and_its_claims_are_made_from_the_records(rows: list[ClaimRow]) -> None:
    results = read_claims(ROOT / "results")
    text = (ROOT / "docs" / "evidence.md").read_text()
    assert update_page(text, make_page(rows, results)) == text, (
        "run: covpool paper claims --page docs/evidence.md --plots docs/img"
    )
    assert all((ROOT / "docs" / path).is_file() for path in re.findall(r"\]\((img/\S+?)\)", text))
    verdicts = {row.claim.number: row.verdict("cub200") for row in rows}
    assert len(verdicts) == len(CLAIMS)
    assert verdicts[1] == "confirmed"


def test_the_gain_on_birds_is_as_large_as_the_page_says() -> None:
    arms = read_claims(ROOT / "results")["cub200"]
    gain = {
        size: 100 * (arms[f"isqrt{at} flips=True"].top1 - arms[f"avg{at} flips=True"].top1)
        for size, at in ((224, ""), (320, " size=320"))
    }
    assert gain[224] >= 5 and gain[320] >= 8


@pytest.mark.parametrize(
    ("number", "verdict", "told"),
    [
        (1, "confirmed", "4 of the paper's are confirmed (for example, MPN-COV beats plain covariance,"),
        (2, "contradicted", "3 contradicted (the best power is 0.3, not 1/2)"),
        (3, "not confirmed at this scale", "5 not confirmed at this scale."),
    ],
)
def test_the_readme_has_the_verdicts_of_the_records(rows: list[ClaimRow], number: int, verdict: str, told: str) -> None:
    (row,) = (row for row in rows if row.claim.number == number)
    assert row.verdict("cub200") == verdict
    papers = [row for row in rows if row.claim.paper]
    count = sum(row.verdict("cub200") == verdict for row in papers)
    text = " ".join((ROOT / "README.md").read_text().split())
    assert told in text and told.startswith(f"{count} ")
    assert f"tests {len(papers)} claims of the paper and {len(rows) - len(papers)} of ours" in text


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(CovpoolError, match="one is missing"):
        update_page("# A page", "")


def test_plots_are_drawn(tmp_path: Path) -> None:
    paths = plot_claims(read_claims(ROOT / "results"), tmp_path)
    assert {"claims_alpha.png", "claims_iterations.png"} <= {path.name for path in paths}
    assert all(path.stat().st_size > 5000 for path in paths)


def test_the_wheel_has_all_records() -> None:
    shipped = (ROOT / "pyproject.toml").read_text()
    assert records_folder() == ROOT / "results"
    assert all(f'"covpool/results/{path.name}"' in shipped for path in (ROOT / "results").glob(PATTERN))
