"""The search for the settings of recipes never sees a test image, and has as many trainings for both pools."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from cli.runner import run
from covpool.data.sets import open_data
from covpool.recipe import check_recipe, read_recipe
from covpool.studies import trained
from covpool.studies.claims import ArmResult
from covpool.studies.trained import TrainedArm, TrainingData, held_out
from covpool.studies.trained._search import FINAL_SEEDS, FINALISTS, FINE_TUNING, Search
from covpool.studies.trained._setting import Setting
from studies.trained.test_queue import AVG, ISQRT, SETTINGS
from trees import make_folder

SEARCHES = {setting.data: setting.search for setting in trained.SETTINGS}
ALL_TRIED = {arm.name: arm for search in SEARCHES.values() for arm in search.possible}


@pytest.mark.parametrize("data", SEARCHES)
def test_both_pools_have_as_many_trainings_and_their_defaults_are_among_them(data: str) -> None:
    search = SEARCHES[data]
    counts = Counter(arm.recipe for arm in search.candidates)
    assert list(counts) == search.recipes and len(counts) == 2 and len(set(counts.values())) == 1
    assert len(set(search.candidates)) == len(search.candidates)
    assert all(TrainedArm(recipe=recipe) in search.candidates for recipe in counts)


@pytest.mark.parametrize("data", SEARCHES)
def test_the_screening_is_cheaper_than_the_finals(data: str) -> None:
    search = SEARCHES[data]
    screened = search.missing({})
    assert len(screened) == len(search.candidates)
    assert all(one.minutes < arm.minutes for one, arm in zip(screened, search.candidates, strict=True))
    assert len({arm.digest for arm in screened}) == len(screened)


@pytest.mark.parametrize("name", ALL_TRIED)
def test_only_training_images_are_used(name: str, tmp_path: Path) -> None:
    arm = ALL_TRIED[name]
    data = held_out(TrainingData("tiny", str(make_folder(tmp_path / "images"))))
    recipe = read_recipe(arm.recipe, [*arm.settings, *data.settings, f"data.root={data.folder}"])
    check_recipe(recipe)
    splits = open_data(recipe.data)
    used = sorted(map(Path, (*splits.train.paths, *splits.test.paths)))
    assert used == sorted((tmp_path / "images" / "train").rglob("*.png"))


def record(found: dict[str, ArmResult], arm: TrainedArm, top1: float) -> None:
    found[arm.name] = ArmResult(data="cub200", arm=arm.name, top1=top1)


def test_the_best_of_the_screening_are_trained_with_all_seeds_and_the_best_mean_wins() -> None:
    search, found = FINE_TUNING, dict[str, ArmResult]()
    for i, arm in enumerate(search.missing(found)):
        assert not search.finalists(found)
        record(found, arm, i / 100)
    finalists = search.finalists(found)
    half = len(search.candidates) // 2
    assert finalists == [*search.candidates[half - 1 : half - 3 : -1], *search.candidates[: -FINALISTS - 1 : -1]]
    finals = search.missing(found)
    assert finals == [arm.with_seed(seed) for arm in finalists for seed in FINAL_SEEDS] and not search.winners(found)
    for arm in finals:
        record(found, arm, 0.7 if arm.with_seed(1) == finalists[1] else 0.6)
    assert search.winners(found) == finalists[1:3] and not search.missing(found)
    first, *_, last = search.standing(found)
    assert first == (finalists[1].label, len(FINAL_SEEDS), pytest.approx(0.7)) and last[1] == 1


def test_the_recipes_are_the_winners_of_the_recorded_search() -> None:
    searches = trained.read_records(Path(__file__).parents[3] / "results").searches
    for data, found in searches.items():
        assert all(not arm.settings for arm in SEARCHES[data].winners(found))


def test_the_command_screens_and_then_runs_the_finals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arms = tuple(replace(arm, settings=(*arm.settings, *SETTINGS)) for arm in (AVG, ISQRT))
    setting = Setting("cub200", (), Search(arms, cheaper=("train.batch_size=4",)))
    monkeypatch.setattr("covpool.cli._trained.import_fabric", lambda: None)
    monkeypatch.setattr("covpool.studies.trained._missing.find_setting", lambda data: setting)
    monkeypatch.setattr("covpool.studies.trained.SETTINGS", [setting])
    monkeypatch.setattr("covpool.studies.trained._scoreboard.SETTINGS", [setting])
    for module in ("covpool.studies.trained", "covpool.studies.trained._missing"):
        monkeypatch.setattr(f"{module}.read_records", lambda folder: read(folder, [setting]))
    monkeypatch.setattr("covpool.studies.trained._search.FINAL_SEEDS", (1, 2))
    folder, records = make_folder(tmp_path / "images"), tmp_path / "mine"
    typed = ["paper", "trained", "--search", "--run", "--data", f"cub200={folder}", "--records", records]
    typed += ["--runs", tmp_path / "runs", "--setting", "data.workers=0", "--setting", "devices.accelerator=cpu"]
    told = run(*typed).stdout
    assert "2 of 2 missing" in told and "4 of 4 missing" in told and "cub200: best: `finetune-avg" in told
    lines = [json.loads(line) for line in (records / "search_cub200.jsonl").read_text().splitlines()]
    held = open_data(read_recipe("finetune", [f"data.root={folder}/train", "data.test_fraction=0.2"]).data).test
    assert len(lines) == 6 and {line["images"] for line in lines} == {len(held)}
    assert "0 of 0" not in told and "best:" in run("paper", "trained", "--search", "--records", records).stdout
    assert not (records / "trained_cub200.jsonl").exists()


read = trained.read_records
