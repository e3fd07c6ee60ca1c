"""A run that is pushed to a folder in place of the hub, and loaded from it."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import covpool
from covpool.engine.training import LAST_CHECKPOINT
from covpool.engine.training._loop import train
from covpool.io import read_checkpoint
from tiny import make_tree, tiny_recipe

hub = pytest.importorskip("huggingface_hub")
EXAMPLE = Path(__file__).parents[2] / "docs" / "hub.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that stands for the hub."""

    def create_commit(repository: str, changes: list[Any], **_: Any) -> None:
        for one in changes:
            shutil.copy(one.path_or_fileobj, tmp_path / repository / one.path_in_repo)

    def download(repository: str, name: str, *, revision: str | None) -> str:
        if not (tmp_path / repository / name).is_file() or revision not in (None, "main"):
            response = type("Response", (), {"headers": {}, "request": None, "status_code": 404, "text": ""})()
            raise hub.errors.HfHubHTTPError("404: not found", response=response)
        return str(tmp_path / repository / name)

    monkeypatch.setattr(hub, "create_repo", lambda name, **_: (tmp_path / name).mkdir(parents=True))
    monkeypatch.setattr(hub, "create_commit", create_commit)
    monkeypatch.setattr(hub, "hf_hub_download", download)
    return tmp_path


def test_a_run_is_pushed_with_its_card_and_loaded(finished: Path, folder: Path) -> None:
    assert covpool.push_to_hub(finished, "me/birds", license="apache-2.0") == "hf://me/birds"
    card = (folder / "me/birds/README.md").read_text()
    wanted = ("license: apache-2.0", "| top-1 accuracy |", "95 % interval", "spectrum.png", "epochs = 2", "12 images")
    assert [words for words in wanted if words not in card] == []
    assert str(finished.parent) not in card, "paths of this machine stay here"
    assert "&" not in card.split("```toml")[1]
    assert (folder / "me/birds/spectrum.png").read_bytes().startswith(b"\x89PNG")
    x = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        expected = covpool.load(finished / LAST_CHECKPOINT)(x)
        assert torch.equal(covpool.load("hf://me/birds")(x), expected)
        assert torch.equal(covpool.load("hf://me/birds@main")(x), expected)
    assert read_checkpoint("hf://me/birds").class_names == read_checkpoint(finished / LAST_CHECKPOINT).class_names


def test_the_card_of_a_fit_says_what_it_is(folder: Path, tmp_path: Path) -> None:
    settings = {"backbone": "test_resnet", "pretrained": False, "size": 32, "pool": "isqrt", "width": 8}
    root = make_tree(tmp_path / "tree")
    covpool.fit(str(root), **settings, out=str(tmp_path / "fit"), data={"workers": 0})
    covpool.push_to_hub(tmp_path / "fit", "me/fit")
    card = (folder / "me/fit/README.md").read_text()
    assert "The backbone is frozen" in card and "`folder` (tree)" in card and "* `width`: 8" in card
    assert "optimizer" not in card and str(tmp_path) not in card
    headings = re.findall(r"^#+ (?!me/)(.*)$", card, re.MULTILINE)
    assert len(headings) == 3 and all(f"\n    **{one}**\n" in EXAMPLE.read_text() for one in headings)


def test_the_card_names_initial_weights_without_their_folder(folder: Path, finished: Path, tmp_path: Path) -> None:
    changes = {"data": {"broken": "skip"}, "init": {"weights": str(finished / LAST_CHECKPOINT)}}
    train(tiny_recipe(finished.parent / "tree", **changes), tmp_path / "run")
    covpool.push_to_hub(tmp_path / "run", "me/tuned")
    card = (folder / "me/tuned/README.md").read_text()
    assert 'weights = "last.safetensors"' in card and str(finished) not in card


def test_mistakes(folder: Path, tmp_path: Path) -> None:
    for address in ("hf://birds", "hf://a/b/c", "hf://../b@"):
        with pytest.raises(covpool.CovpoolError, match="hf://owner/name"):
            covpool.load(address)
    with pytest.raises(covpool.CovpoolError, match="check the address"):
        covpool.load("hf://me/none")
    with pytest.raises(covpool.CovpoolError, match="not the folder of a run"):
        covpool.push_to_hub(tmp_path, "me/birds")


def test_a_file_from_the_hub_is_checked_as_any_other(folder: Path) -> None:
    (folder / "me/bad").mkdir(parents=True)
    (folder / "me/bad/model.safetensors").write_bytes(b"not safetensors")
    with pytest.raises(covpool.CovpoolError, match="not a whole safetensors file"):
        covpool.load("hf://me/bad")
