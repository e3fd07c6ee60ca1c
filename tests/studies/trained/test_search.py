"""The search for the settings of fine-tuning never sees a test image, and has as many trainings for both pools."""

import json
from collections import Counter
from pathlib import Path

import pytest

from cli.runner import run
from covpool.data.sets import open_data
from covpool.recipe import read_recipe
from covpool.studies import trained
from covpool.studies.trained import Setting, TrainedArm, TrainingData, best_first, held_out
from covpool.studies.trained._search import TRIED
from studies.trained.test_queue import AVG, SETTINGS
from trees import make_folder

ALL_TRIED = [arm for setting in trained.SETTINGS for arm in setting.tried]


def test_both_pools_have_as_many_trainings_and_their_defaults_are_among_them() -> None:
    counts = Counter(arm.recipe for arm in TRIED)
    assert set(counts) == {"finetune", "finetune-avg"} and len(set(counts.values())) == 1
    assert len({arm.name for arm in TRIED}) == len(TRIED)
    for recipe in counts:
        assert TrainedArm(recipe=recipe, settings=("augment.size=224",)) in TRIED


@pytest.mark.parametrize("arm", ALL_TRIED, ids=lambda arm: arm.name)
def test_only_training_images_are_used(arm: TrainedArm, tmp_path: Path) -> None:
    data = held_out(TrainingData("tiny", str(make_folder(tmp_path / "images"))))
    splits = open_data(read_recipe(arm.recipe, [*arm.settings, *data.settings, f"data.root={data.folder}"]).data)
    used = sorted(map(Path, (*splits.train.paths, *splits.test.paths)))
    assert used == sorted((tmp_path / "images" / "train").rglob("*.png"))


def test_the_command_records_the_search_and_shows_the_best_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covpool.cli._trained.import_fabric", lambda: None)
    monkeypatch.setattr("covpool.studies.trained.find_setting", lambda data: Setting(data, (), (AVG,)))
    monkeypatch.setattr("covpool.studies.trained.SETTINGS", [Setting("tiny", (), (AVG,))])
    folder, records = make_folder(tmp_path / "images"), tmp_path / "mine"
    typed = ["paper", "trained", "--search", "--run", "--data", f"tiny={folder}", "--records", records]
    typed += ["--runs", tmp_path / "runs", *(word for setting in SETTINGS for word in ("--setting", setting))]
    assert "1 of 1 missing" in run(*typed).stdout
    record = json.loads((records / "search_tiny.jsonl").read_text())
    held = open_data(read_recipe("finetune", [f"data.root={folder}/train", "data.test_fraction=0.2"]).data).test
    assert record["arm"] == AVG.name and record["images"] == len(held)
    assert AVG.recipe in run("paper", "trained", "--search", "--records", records).stdout
    assert not (records / "trained_tiny.jsonl").exists()


def test_the_best_comes_first() -> None:
    found = {arm.name: type("Result", (), {"top1": i / 100})() for i, arm in enumerate(TRIED)}
    ordered = best_first(TRIED, found)
    assert [top1 for name, top1 in ordered if name.startswith("finetune ")] == sorted(
        (top1 for name, top1 in ordered if name.startswith("finetune ")), reverse=True
    )
    assert ordered[0][0].startswith("finetune ") and ordered[-1][0].startswith("finetune-avg ")
