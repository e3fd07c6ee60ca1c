"""The comparison of two runs: its numbers against a count by hand, and its page."""

import shutil
from pathlib import Path

import pytest
import torch

import covpool
from covpool.engine.training._loop import train
from covpool.report import write_comparison
from covpool.report._comparison import compare_predictions
from covpool.report._predictions import Predictions
from report.pages import Page, outside
from tiny import make_tree, tiny_recipe

CLASSES = ("a", "b", "c")


def predictions(answers: list[int], targets: list[int]) -> Predictions:
    return Predictions(5 * torch.eye(3)[answers], torch.tensor(targets), CLASSES)


def test_images_are_compared_one_by_one() -> None:
    targets = [0, 0, 1, 1, 2, 2, -1]
    found = compare_predictions(
        predictions([0, 1, 1, 0, 2, 0, 0], targets), predictions([0, 0, 1, 1, 0, 2, 1], targets)
    )
    assert (found.images, found.only_first, found.only_second) == (6, 1, 3)
    assert (found.first, found.second) == (pytest.approx(3 / 6), pytest.approx(5 / 6))
    assert found.interval[0] <= 2 / 6 <= found.interval[1] and "do not rank" in found.in_words
    assert [(one.name, one.images, one.first, one.second) for one in found.classes] == [
        ("a", 2, 0.5, 1.0),
        ("b", 2, 0.5, 1.0),
    ]
    assert [(true, said) for _, true, said in found.images_of_first] == [("c", "a")]
    assert sorted((true, said) for _, true, said in found.images_of_second) == [("a", "b"), ("b", "a"), ("c", "a")]


def test_a_clear_difference_is_said_in_words() -> None:
    targets = [0] * 40
    found = compare_predictions(predictions([1] * 40, targets), predictions([0] * 40, targets))
    assert found.interval == (1.0, 1.0) and found.in_words.startswith("The second run is better")


def test_other_images_are_refused() -> None:
    with pytest.raises(covpool.CovpoolError, match="other test images"):
        compare_predictions(predictions([0, 1], [0, 1]), predictions([0, 1], [1, 0]))


def test_the_page_shows_both_runs(finished: Path, tmp_path: Path) -> None:
    root = finished.parent / "tree"
    other = tmp_path / "other"
    train(
        tiny_recipe(root, data={"broken": "skip"}, train={"epochs": 1}, pool={"name": "avg", "reduce_to": "none"}),
        other,
    )
    path = write_comparison(finished, other, device="cpu")
    assert path == other / "comparison.html"
    html = path.read_text()
    page = Page(html)
    assert outside(html) == [] and len(page.ids) == len(set(page.ids))
    assert [name for name in page.text if name != "header"] == [
        *("result", "curves", "classes", "images", "spectra", "settings")
    ]
    assert "On the same 12 test images" in page.text["header"] and "This part is missing" not in html
    assert page.count("curves", "svg") == 2 and page.count("spectra", "svg") == 2
    assert 'pool.name "isqrt" "avg"' in page.text["settings"] and "train.epochs 2 1" in page.text["settings"]
    with pytest.raises(covpool.CovpoolError, match="twice"):
        write_comparison(other, other)


def test_runs_on_other_data_are_refused(finished: Path, tmp_path: Path) -> None:
    train(tiny_recipe(make_tree(tmp_path / "tree", test=2)), tmp_path / "run")
    with pytest.raises(covpool.CovpoolError, match="other test images"):
        write_comparison(finished, tmp_path / "run", device="cpu")


def test_other_images_of_the_same_classes_are_refused(finished: Path, tmp_path: Path) -> None:
    root = shutil.copytree(finished.parent / "tree", tmp_path / "tree")
    image = min(path for path in (root / "test").rglob("*") if path.is_file())
    image.rename(image.with_stem(f"{image.stem}-other"))
    train(tiny_recipe(root, data={"broken": "skip"}, train={"epochs": 1}), tmp_path / "run")
    with pytest.raises(covpool.CovpoolError, match="the same split"):
        write_comparison(finished, tmp_path / "run", device="cpu")
