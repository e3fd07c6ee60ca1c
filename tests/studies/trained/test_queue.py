"""The queue of trainings: several at once, resumed, failed, and counted as wrong if they diverge."""

import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import trees
from cli.runner import refused, run
from covpool import CovpoolError
from covpool._records import append_lines
from covpool.engine.evaluation import SCORES_FILE
from covpool.engine.training import LAST_CHECKPOINT
from covpool.recipe import RECIPE_FILE, read_recipe
from covpool.studies.claims import ArmResult, read_claims
from covpool.studies.trained import TrainedArm, TrainingData, find_setting, read_records
from covpool.studies.trained._queue import PATTERN, Locks, _command, train_arms
from covpool.studies.trained._setting import Setting

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
    assert again == [found[AVG.name]] and again[0].seconds > 0 and len(list(tmp_path.iterdir())) == 2
    assert list(train_arms(data, [AVG], tmp_path, at_once=1, seconds=0, on_failure=lambda *_: None)) == []
    other = replace(data, settings=(*data.settings, "train.epochs=2"))
    list(train_arms(other, [AVG], tmp_path, at_once=1, seconds=600, on_failure=lambda *_: None))
    assert len(list(tmp_path.iterdir())) == 3


def test_fused_scores_are_those_of_two_trainings_that_are_not_repeated(data: TrainingData, tmp_path: Path) -> None:
    fused = replace(ISQRT, fused_with=AVG)
    list(train_arms(data, [fused, ISQRT, AVG], tmp_path, at_once=3, seconds=600, on_failure=lambda *_: None))
    assert len(list(tmp_path.iterdir())) == 2
    (found,) = train_arms(data, [fused], tmp_path, at_once=1, seconds=600, on_failure=lambda *_: None)
    scores = [load_file(path) for path in tmp_path.glob(f"*/{SCORES_FILE}")]
    wanted = sum(each["logits"].log_softmax(1) for each in scores).argmax(1) == scores[0]["targets"]
    assert len(list(tmp_path.iterdir())) == 2 and found.arm == f"{ISQRT.name} + {AVG.name}"
    assert torch.equal(found.answers.right.bool(), wanted)


def test_a_training_that_diverges_is_wrong_on_every_image(data: TrainingData, tmp_path: Path) -> None:
    (found,) = train_arms(data, [DIVERGED], tmp_path, at_once=1, seconds=600, on_failure=lambda *_: None)
    assert found.images == 12 and found.top1 == 0 and not found.answers.right.any() and not found.converged
    started = replace(ISQRT, starts_from=DIVERGED)
    failures: list[str] = []
    again = replace(data, pre_training=data)
    assert not list(
        train_arms(again, [started], tmp_path, at_once=1, seconds=9, on_failure=lambda _, e: failures.append(str(e)))
    )
    assert "whose loss is not finite" in failures[0]


@pytest.mark.parametrize("status", [1, 2])
def test_only_the_exit_status_tells_that_a_training_diverged(
    data: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    done = subprocess.CompletedProcess([], status, stdout="", stderr="no folder 'the loss is not finite'")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    failures: list[str] = []
    given = {"at_once": 1, "seconds": 9, "on_failure": lambda _, error: failures.append(str(error))}
    assert not list(train_arms(data, [AVG], tmp_path, **given)) and failures == ["no folder 'the loss is not finite'"]


class SlowKey:
    """As a path, it is compared by Python code, between whose lines another thread may run."""

    def __hash__(self) -> int:
        time.sleep(0.05)
        return 0

    def __eq__(self, other: object) -> bool:
        return self is other


def test_threads_share_the_lock_of_a_folder() -> None:
    locks, key = Locks(), SlowKey()
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: locks.of(key), range(2))
    assert first is second


def test_a_training_starts_from_the_network_of_another(data: TrainingData, tmp_path: Path) -> None:
    started = replace(AVG, starts_from=AVG.with_seed(2))
    failures: list[str] = []
    options = {"at_once": 1, "seconds": 600, "on_failure": lambda _, error: failures.append(str(error))}
    assert not list(train_arms(data, [started], tmp_path, **options))
    assert "add --data tiny-imagenet-100=FOLDER" in failures.pop()
    source = replace(data, name="small", settings=(*SETTINGS, "train.batch_size=4"))
    (found,) = train_arms(replace(data, pre_training=source), [started], tmp_path, **options)
    assert found.arm == f"{AVG.name} from {AVG.with_seed(2).name}" and not failures
    before, after = sorted(tmp_path.iterdir(), key=lambda run: not run.name.startswith("small"))
    recipe = read_recipe(str(after / RECIPE_FILE))
    assert recipe.init.weights == str(before / LAST_CHECKPOINT) and not recipe.init.pretrained and recipe.seed == 1


def test_a_record_counts_while_the_recipe_has_the_same_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting, fused = find_setting("cub200"), replace(ISQRT, fused_with=AVG)
    monkeypatch.setattr(Setting, "arms", property(lambda self: [AVG, fused]))
    results = [ArmResult(data="cub200", arm=arm.name, settings=arm.digest, images=1) for arm in (AVG, fused)]
    append_lines(tmp_path / "trained_cub200.jsonl", *[one.as_json() for one in results])
    assert set(read_records(tmp_path, [setting]).claims["cub200"]) == {AVG.name, fused.name}
    monkeypatch.setattr("covpool.studies.trained._arm._read", lambda *_: read_recipe("finetune", ["optimizer.lr=9"]))
    found = read_records(tmp_path, [setting])
    assert not found.claims and found.outdated == (f"cub200: {AVG.name}", f"cub200: {fused.name}")


def test_what_the_name_promises_comes_last(tmp_path: Path) -> None:
    data = TrainingData("birds", "birds", settings=("seed=5", "evaluate.every=1", "augment.size=32"))
    command = _command(data, TrainedArm(recipe="finetune", settings=("augment.size=224",), seed=2), tmp_path)
    recipe = read_recipe("finetune", [word for word in command if "=" in word and not word.startswith("--")])
    assert (recipe.seed, recipe.augment.size) == (2, 224) and recipe.evaluate.every > 1000


def test_settings_that_change_the_training_are_refused(tmp_path: Path) -> None:
    typed = ("paper", "trained", "--run", "--data", "cub200=x", "--records", tmp_path, "--setting")
    for setting in ("seed=5", "train.epochs=1", "data.root=x"):
        assert f"--setting {setting} would change what the records are named after" in refused(*typed, setting)


def test_the_command_records_what_is_missing(
    data: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm = replace(AVG, settings=(*AVG.settings, *SETTINGS))
    setting = Setting("cub200", (), find_setting("cub200").search)
    monkeypatch.setattr("covpool.cli._trained.import_fabric", lambda: None)
    monkeypatch.setattr(Setting, "arms", property(lambda self: [arm]))
    monkeypatch.setattr(
        "covpool.studies.trained._missing.plan", lambda claims, known: [a for a in [arm] if a.name not in known]
    )
    monkeypatch.setattr("covpool.studies.trained._missing.find_setting", lambda data: setting)
    typed = ["paper", "trained", "11", "--run", "--data", f"cub200={data.folder}", "--records", tmp_path / "mine"]
    typed += ["--runs", tmp_path / "runs", "--setting", "data.workers=0", "--setting", "devices.accelerator=cpu"]
    assert "1 of 1 missing" in run(*typed).stdout
    assert "0 of 0 missing" in run(*typed).stdout
    (line,) = (tmp_path / "mine" / "trained_cub200.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert record["commit"] and record["device"] and record["arm"] == arm.name and "seed" not in record
    assert set(read_claims(tmp_path / "mine", PATTERN)["cub200"]) == {arm.name}


def test_a_failure_is_the_exit_status(data: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covpool.cli._trained.import_fabric", lambda: None)
    monkeypatch.setattr("covpool.studies.trained._missing.plan", lambda claims, known: [UNKNOWN])
    typed = ("paper", "trained", "11", "--run", "--data", f"cub200={data.folder}", "--records", tmp_path)
    ended = run(*typed, "--runs", tmp_path / "runs")
    assert ended.exit_code == 1 and f"{UNKNOWN.name} failed: unknown pool" in ended.stdout.replace("\n", " ")
    assert "0 of 1 missing" in ended.stdout


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
    typed = ("paper", "trained", "--run", "--records", tmp_path, "--data")
    assert "nowhere" in refused(*typed, f"cub200={tmp_path / 'nowhere'}")
    assert "leave out numbers" in refused("paper", "trained", "11", "--search")
    flat = trees.make_folder(tmp_path / "images") / "train"
    assert "there is no folder" in refused(*typed, f"cub200={flat}", "--search")
