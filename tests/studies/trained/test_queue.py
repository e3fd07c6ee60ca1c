"""The queue of trainings: several at once, resumed, failed, and counted as wrong if they diverge."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import trees
from cli.runner import refused, run
from covpool import CovpoolError
from covpool.engine.evaluation import SCORES_FILE
from covpool.studies.claims import read_claims
from covpool.studies.trained import PATTERN, Setting, TrainedArm, TrainingData, train_arms
from covpool.studies.trained._queue import _command

SETTINGS = (
    *("model.backbone=test_resnet", "init.pretrained=false", "augment.size=32", "data.workers=0"),
    *("train.batch_size=6", "train.epochs=1", "train.precision=32", "devices.accelerator=cpu"),
)
AVG, ISQRT = TrainedArm(recipe="finetune-avg"), TrainedArm(recipe="finetune", settings=("pool.reduce_to=8",))
UNKNOWN = TrainedArm(recipe="finetune", settings=("pool.name=unknown",))
DIVERGED = TrainedArm(recipe="finetune-avg", settings=("optimizer.lr=1e15",))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> TrainingData:
    return TrainingData("tiny", str(trees.make_folder(tmp_path_factory.mktemp("images"))), settings=SETTINGS)


def test_trainings_run_at_once_and_failures_stop_no_other(data: TrainingData, tmp_path: Path) -> None:
    failures: list[tuple[TrainedArm, Exception]] = []
    found = {
        result.arm: result
        for result in train_arms(
            *(data, [AVG, UNKNOWN, ISQRT], tmp_path),
            at_once=3,
            seconds=600,
            on_failure=lambda arm, error: failures.append((arm, error)),
        )
    }
    assert set(found) == {AVG.name, ISQRT.name} and all(result.images == 12 for result in found.values())
    assert all(float(one.answers.right.mean()) == pytest.approx(one.top1) for one in found.values())
    ((arm, error),) = failures
    assert arm == UNKNOWN and isinstance(error, CovpoolError) and "unknown" in str(error)
    # Finished runs are read, not repeated; nothing begins after the time is over.
    again = list(train_arms(data, [AVG], tmp_path, at_once=1, seconds=600, on_failure=lambda *_: None))
    assert again[0].right == found[AVG.name].right and again[0].seconds < 1
    assert list(train_arms(data, [AVG], tmp_path, at_once=1, seconds=0, on_failure=lambda *_: None)) == []
    other = replace(data, settings=(*data.settings, "train.epochs=2"))
    (trained,) = train_arms(other, [AVG], tmp_path, at_once=1, seconds=600, on_failure=lambda *_: None)
    assert trained.seconds > 1


def test_fused_scores_are_those_of_two_trainings_that_are_not_repeated(data: TrainingData, tmp_path: Path) -> None:
    fused = replace(ISQRT, fused_with=AVG)
    list(train_arms(data, [fused, ISQRT, AVG], tmp_path, at_once=3, seconds=600, on_failure=lambda *_: None))
    assert len(list(tmp_path.iterdir())) == 2
    (found,) = train_arms(data, [fused], tmp_path, at_once=1, seconds=600, on_failure=lambda *_: None)
    scores = [load_file(path) for path in tmp_path.glob(f"*/{SCORES_FILE}")]
    wanted = sum(each["logits"].log_softmax(1) for each in scores).argmax(1) == scores[0]["targets"]
    assert found.seconds < 1 and found.arm == f"{ISQRT.name} + {AVG.name}"
    assert torch.equal(found.answers.right.bool(), wanted)


def test_a_training_that_diverges_is_wrong_on_every_image(data: TrainingData, tmp_path: Path) -> None:
    (found,) = train_arms(data, [DIVERGED], tmp_path, at_once=1, seconds=600, on_failure=lambda *_: None)
    assert found.images == 12 and found.top1 == 0 and not found.answers.right.any()


def test_the_command_records_what_is_missing(
    data: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covpool.cli._trained.import_fabric", lambda: None)
    monkeypatch.setattr("covpool.studies.claims.plan", lambda claims, known: [a for a in [AVG] if a.name not in known])
    monkeypatch.setattr("covpool.studies.trained.find_setting", lambda data: Setting(data, (), ()))
    typed = ["paper", "trained", "11", "--run", "--data", f"tiny={data.folder}", "--records", tmp_path / "mine"]
    typed += ["--runs", tmp_path / "runs", *(word for setting in SETTINGS for word in ("--setting", setting))]
    assert "1 of 1 missing" in run(*typed).stdout
    assert "0 of 0 missing" in run(*typed).stdout
    (line,) = (tmp_path / "mine" / "trained_tiny.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert record["commit"] and record["device"] and record["arm"] == AVG.name and "seed" not in record
    assert set(read_claims(tmp_path / "mine", PATTERN)["tiny"]) == {AVG.name}


def test_weights_are_for_trainings_that_start_from_them(tmp_path: Path) -> None:
    data = TrainingData("birds", "birds", weights="mobilenet.pth")
    fine_tuned, from_scratch = (_command(data, TrainedArm(recipe=name), tmp_path) for name in ("finetune", "scratch"))
    assert "init.weights=mobilenet.pth" in fine_tuned and "init.pretrained=false" in fine_tuned
    assert not any(word.startswith("init.") for word in from_scratch)


def test_mistakes_are_refused(tmp_path: Path) -> None:
    assert "there is no claim 99" in refused("paper", "trained", "99")
    unknown = refused("paper", "trained", "--run", "--data", "birds=x", "--records", tmp_path / "none")
    assert "no claim is tested by trainings on 'birds'" in unknown
    assert "--run needs --records" in refused("paper", "trained", "--run")
    assert "add --run" in refused("paper", "trained", "--data", "cub200=x")
    assert "--data must be NAME=FOLDER" in refused("paper", "trained", "--run", "--data", "x", "--records", tmp_path)
