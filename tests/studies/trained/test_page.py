"""The page on trained networks agrees with the records."""

from pathlib import Path

from covpool.studies.claims import read_claims, scoreboard, update_page
from covpool.studies.trained import CLAIMS, PATTERN, SEARCH_PATTERN, make_page, minutes

ROOT = Path(__file__).parents[3]
PAGE = "docs/developers/trained.md"


def make() -> str:
    """The page of the records that come with covpool."""
    results = read_claims(ROOT / "results", PATTERN)
    return make_page(scoreboard(results, CLAIMS), results, read_claims(ROOT / "results", SEARCH_PATTERN))


def test_the_page_is_made_from_the_records() -> None:
    text, made = (ROOT / PAGE).read_text(), make()
    assert update_page(text, made) == text, f"run: covpool paper trained --page {PAGE}"
    assert "`finetune-avg`" in made and "Claim 20" in made


def test_the_queue_counts_every_training_once() -> None:
    arms = list(dict.fromkeys(arm for claim in CLAIMS for arm in claim.arms))
    rows = make().partition("## The queue")[2].partition("\n\n* Claim")[0].splitlines()
    counted = sum(
        int(row.split("|")[2]) for row in rows if row.startswith("| ") and row.split("|")[1].strip().isdigit()
    )
    assert counted == len(arms) and minutes(arms) > 30
