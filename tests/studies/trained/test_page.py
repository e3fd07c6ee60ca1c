"""The page on trained networks agrees with the records."""

from pathlib import Path

from covpool.studies.claims import update_page
from covpool.studies.trained import SETTINGS, examine_claims, make_page, read_records

ROOT = Path(__file__).parents[3]
PAGE = "docs/developers/trained.md"


def make() -> str:
    """The page of the records that come with covpool."""
    folder = ROOT / "results"
    records = read_records(folder)
    assert not records.outdated
    return make_page(examine_claims(records.claims, folder), records)


def test_the_page_is_made_from_the_records() -> None:
    text, made = (ROOT / PAGE).read_text(), make()
    assert update_page(text, made) == text, f"run: covpool paper trained --page {PAGE}"
    assert "`finetune-avg`" in made and "| tiny-imagenet-100 |" in made


def test_the_queue_counts_every_training_once() -> None:
    rows = make().partition("## The queue")[2].partition("\n\n##")[0].splitlines()
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
    for setting in SETTINGS:
        arms = {arm for claim in setting.claims for arm in claim.arms}
        assert sum(int(count) for data, _, count, *_ in cells[4:] if data == setting.data) == len(arms)


def test_every_claim_has_the_command_of_its_data_set() -> None:
    sections = make().partition("## Claim by claim")[2].split("### ")[1:]
    told = {int(section.partition(".")[0]): section for section in sections}
    assert "--data cub200=FOLDER" in told[11] and "--weights FILE" in told[11]
    assert "--data tiny-imagenet-100=FOLDER" in told[27] and "--data tiny" not in told[11]
    assert "--data tiny-imagenet-100=FOLDER" in told[9] and "--weights" not in told[9]
    assert "covpool bench --model" in told[14] and "paper trained 20 --run" in told[20]
