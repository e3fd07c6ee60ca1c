"""The measurement of gradients repeats exactly, and agrees with the scale of post-compensation."""

from pathlib import Path

import pytest
import torch

import trees
from cli.runner import run
from covpool.data import Data
from covpool.models import make_features, make_head
from covpool.studies.trained._gradients import _gradient, measure_gradients


@pytest.fixture
def weights(tmp_path: Path) -> str:
    path = tmp_path / "mobilenet_v2.pth"
    torch.manual_seed(0)
    features = make_features("torchvision/mobilenet_v2", keep_last_stride=True)
    torch.save(features.body.state_dict(), path)
    return str(path)


def test_the_gradient_shrinks_by_the_root_of_the_trace() -> None:
    x, y = torch.rand(8, 32, 6, 6), torch.arange(8) % 3
    gradients = {postcomp: _gradient(x, y, 3, postcomp) for postcomp in (True, False)}
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        pool, _ = make_head("isqrt", (32,), 3, reduce_to=256)
    kept = pool.train().descriptors(x).unflatten(0, (8, -1))
    root = kept.var(1, correction=0).sum(1).sqrt().mean()
    assert float(gradients[False].norm() / gradients[True].norm()) == pytest.approx(1 / float(root), rel=0.3)
    assert torch.equal(gradients[True], _gradient(x, y, 3, True))


def test_the_command_measures_once(tmp_path: Path, weights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covpool.cli._trained.import_fabric", lambda: None)
    monkeypatch.setattr("covpool.studies.trained._gradients.SIZE", 32)
    folder, records = trees.make_folder(tmp_path / "images"), tmp_path / "mine"
    typed = ("paper", "trained", "20", "--run", "--data", f"tiny={folder}", "--weights", weights, "--records", records)
    assert "gradients measured" in run(*typed).stdout
    first = (records / "gradients_tiny.jsonl").read_text()
    assert "gradients measured" not in run(*typed).stdout
    assert (records / "gradients_tiny.jsonl").read_text() == first
    data = Data(root=str(folder), workers=0)
    found = measure_gradients("tiny", data, weights=weights, device=torch.device("cpu"))
    assert found["images"] == 12 and f'"ratios": {found["ratios"]}' in first and found["rms_without"] > 0
