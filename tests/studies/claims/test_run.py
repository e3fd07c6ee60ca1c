"""Running arms on tiny images, and continuing where an earlier run stopped."""

import gc
import json
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import timm
import torch

import trees
from covpool._errors import CovpoolError
from covpool.data import Data
from covpool.studies.claims import Arm, ArmResult, Claim, Comparison, Subject, plan, read_claims
from covpool.studies.claims._corruptions import CORRUPTIONS, corrupt
from covpool.studies.claims._run import Runner, run_arms
from covpool.studies.claims._views import Views, _few

AVG, ISQRT = Arm(pool="avg", size=64), Arm(pool="isqrt", size=64, width=8)


def make_subject(folder: Path) -> Subject:
    root = trees.make_folder(folder / "data", classes=3, per_class=6)
    torch.manual_seed(0)
    torch.save(timm.create_model("test_resnet").state_dict(), folder / "weights.pth")
    data = Data(root=str(root), workers=0)
    return Subject("tiny", data, backbone="test_resnet", weights=str(folder / "weights.pth"))


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    views = Views(make_subject(tmp_path_factory.mktemp("claims")), torch.device("cpu"))
    return Runner(views, frozenset([AVG.name]))


def test_arms_of_every_kind_run(runner: Runner) -> None:
    arms = [
        AVG,
        replace(ISQRT, flips=True, per_class=2, seed=1),
        replace(AVG, per_class=1),
        replace(ISQRT, classifier="prototypes"),
        replace(ISQRT, classifier="svm"),
        replace(AVG, stride=False, level="layer3", per_class=1),
        replace(AVG, pool="avg+isqrt", width=8),
    ]
    found = {arm.name: runner.run(arm) for arm in arms}
    assert all(result.images == 18 and 0 <= result.top1 <= 1 for result in found.values())
    assert all(float(result.answers.right.mean()) == pytest.approx(result.top1) for result in found.values())
    assert len(found[AVG.name].answers.confidence) == 18
    assert found["avg size=64 per_class=1"].penalty == 1e-6 and found[AVG.name].held_out is not None
    assert found[arms[4].name].calibration_error is None
    assert found[arms[-1].name].length == found[AVG.name].length + 36


def test_corrupted_images_are_scored_by_the_fit_to_clean_ones(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner.run(AVG)
    monkeypatch.setattr("covpool.studies.claims._run.fit_cross_validated", None)  # a new fit would fail
    for name in CORRUPTIONS:
        assert runner.run(replace(AVG, corruption=name)).images == 18


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corruptions_change_images_reproducibly(name: str) -> None:
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    found = corrupt(x, name, seed=1)
    assert found.shape == x.shape and found.min() >= 0 and found.max() <= 1
    assert torch.equal(found, corrupt(x, name, seed=1)) and not torch.equal(found, x)


def test_the_spectrum_counts_every_eigenvalue(runner: Runner) -> None:
    spectra = runner.run(Arm(pool="mpn", size=64, width=8, classifier="spectrum")).spectra
    for name in ("covariance", "square root", "iSQRT, N = 5"):
        assert sum(spectra[name]["share"]) + spectra[name]["zero"] == pytest.approx(1, abs=1e-3)


def test_fewer_images_are_among_more(runner: Runner) -> None:
    maps = runner.views.train(replace(AVG, flips=True))
    two, four = _few(maps, 2, 0), _few(maps, 4, 0)
    assert two.targets.bincount().tolist() == [2, 2, 2] and len(two.features) == 12
    rows = {tuple(row.flatten().tolist()) for row in four.features}
    assert all(tuple(row.flatten().tolist()) in rows for row in two.features)


def test_features_too_large_for_half_precision_are_refused(tmp_path: Path) -> None:
    views = Views(make_subject(tmp_path), torch.device("cpu"))
    weight = [p for p in views.backbone(AVG).parameters() if p.ndim == 1][-2]  # of the last batch norm
    torch.nn.init.constant_(weight, 1e6)
    with pytest.raises(CovpoolError, match=r"not finite as torch\.float16"):
        Runner(views).run(AVG)


def test_fits_are_kept_for_one_image_size(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner.run(ISQRT)
    pool = weakref.ref(runner._fit(ISQRT, runner.views.train(ISQRT)).pool)
    runner.run(replace(AVG, pool="avg+isqrt", width=8, size=96))
    gc.collect()
    assert pool() is None
    monkeypatch.setattr("covpool.studies.claims._run.fit_cross_validated", None)  # a new fit would fail
    assert runner.run(replace(ISQRT, size=96)).images == 18


def test_a_run_continues_where_the_last_one_stopped(runner: Runner, tmp_path: Path) -> None:
    broken = Arm(pool="isqrt", size=64, width=8, level="no.such.module")
    claim = Claim(1, "", "", (Comparison("", ((1, ISQRT), (-1, AVG))), Comparison("", ((1, broken), (-1, AVG)))))
    failures: list[str] = []

    def run(seconds: float) -> list[str]:
        known = read_claims(tmp_path).get("tiny", {})
        found = []
        for result in run_arms(runner, plan([claim], known), seconds, lambda arm, error: failures.append(arm.name)):
            found.append(result.arm)
            with (tmp_path / "claims_tiny.jsonl").open("a") as file:
                file.write(json.dumps({"commit": "x", **result.as_json()}) + "\n")
            if seconds < 1:
                break
        return found

    assert run(0.5) == [ISQRT.name]
    assert run(60) == [AVG.name] and failures == [broken.name]
    with (tmp_path / "claims_tiny.jsonl").open("a") as file:
        file.write('{"suite": "claims", "data": "ti')  # as a killed process leaves it
    assert run(60) == []
    assert isinstance(read_claims(tmp_path)["tiny"][AVG.name], ArmResult)
