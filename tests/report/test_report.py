"""The report of a run: read as HTML, compared with the log, and with sections missing."""

import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import covpool
from covpool._records import read_lines
from covpool.data._images import Images
from covpool.data._settings import Data
from covpool.data.pipeline import EvalBatches
from covpool.data.sets._open import Splits, open_data
from covpool.diagnostics import Spectra
from covpool.engine.evaluation._intervals import wilson
from covpool.engine.evaluation._summary import summarize_scores
from covpool.engine.training._loop import train
from covpool.report import write_report
from covpool.report._attribution import attribution_maps
from covpool.report._curves import learning_curves
from covpool.report._eigenplots import SpectraSummary, function_plots, spectrum_plots, summarize_spectra
from covpool.report._history import History, Series
from covpool.report._mistakes import find_mistakes
from covpool.report._neighbours import SEARCHED, SHOWN, _with_similar_scores, find_neighbours
from covpool.report._open import open_run
from covpool.report._predictions import Predictions
from covpool.report._section import Section, attempt
from report.pages import SECTIONS, Page, outside
from tiny import make_tree, tiny_recipe

MISSING = "This part is missing"


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    """A copy of the run that a test may change."""
    run = tmp_path / "run"
    shutil.copytree(finished, run, ignore=shutil.ignore_patterns("tensorboard", "report.html"))
    return run


def page(run: Path) -> Page:
    return Page((run / "report.html").read_text())


def test_the_page_needs_no_other_file(finished: Path) -> None:
    html = (finished / "report.html").read_text()
    assert outside(html) == []
    found = Page(html)
    assert len(found.ids) == len(set(found.ids)), "no two elements have the same id"
    named = {name[1:] for name in found.pointers if name.startswith("#")} | set(re.findall(r"url\(#([^)]*)\)", html))
    assert named <= set(found.ids), "every reference inside the page leads somewhere"
    assert len(html) < 1_000_000


def test_every_section_is_there(finished: Path) -> None:
    found = page(finished)
    assert [name for name in found.text if name != "header"] == list(SECTIONS)
    assert not any(MISSING in text for text in found.text.values()), found.text
    assert found.count("curves", "svg") == 5
    assert found.count("spectra", "svg") == 2 and found.count("functions", "svg") == 2
    assert "not finished" not in found.text["header"]


def test_numbers_are_those_of_the_log_and_of_the_checkpoint(finished: Path) -> None:
    found = page(finished)
    events = read_lines(finished / "log.jsonl")
    for event in events:
        if event["event"] == "epoch":
            row = f"{event['epoch']} {event['train_loss']:.4f} {100 * event['train_top1']:.2f} %"
            assert f"{row} {event['test_loss']:.4f} {100 * event['top1']:.2f} %" in found.text["timings"]
    accuracies = [event["top1"] for event in events if event["event"] == "epoch"]
    low, high = wilson(round(12 * accuracies[-1]), 12)
    assert (
        f"top-1 accuracy {100 * accuracies[-1]:.2f} % 95 % interval {100 * low:.2f} to {100 * high:.2f} %"
        in found.text["result"]
    )
    assert (
        "test images 12" in found.text["result"]
        and "last.safetensors (after epoch 2, the last one)" in found.text["result"]
    )
    assert f"best epoch on the test set {100 * max(accuracies):.2f} %" in found.text["result"]
    assert "chosen on the test images, so too optimistic: not the result" in found.text["result"]
    network = covpool.load(finished / "last.safetensors")
    assert f"parameters {sum(p.numel() for p in network.parameters()):,}" in found.text["result"]
    assert (
        f"torch {covpool.io.read_checkpoint(finished / 'best.safetensors').versions['torch']}" in found.text["settings"]
    )
    assert "1 could not be read" in found.text["broken"] and "blue/3.png" in found.text["broken"]


def test_settings_that_differ_are_shown_with_their_defaults(finished: Path) -> None:
    found = page(finished).text["settings"]
    assert "optimizer.lr 0.05 0.1" in found and "pool.reduce_to 8" in found and 'data.broken "skip" "refuse"' in found
    assert "optimizer.momentum 0.9" not in found.split("The whole recipe")[0]
    assert "momentum = 0.9" in found.split("The whole recipe")[1]


def test_mistakes_are_those_of_the_network(finished: Path) -> None:
    found = page(finished)
    splits = open_data(Data(root=_root(finished), workers=0))
    network = covpool.load(finished / "last.safetensors")
    names = splits.test.classes
    pairs: dict[tuple[str, str], int] = {}
    for i, target in enumerate(splits.test.targets):
        pixels = np.asarray(splits.test.load(i).resize((32, 32), Image.Resampling.BILINEAR), dtype="float32") / 255
        x = (torch.from_numpy(pixels) - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor([0.229, 0.224, 0.225])
        said = int(network(x.permute(2, 0, 1)[None]).argmax())
        if said != target:
            pairs[names[target], names[said]] = pairs.get((names[target], names[said]), 0) + 1
    assert pairs, "a network trained for two epochs makes mistakes"
    for (true, said), count in pairs.items():
        assert f"{true} mistaken for {said} {count} of 4" in found.text["mistakes"]
    assert found.count("mistakes", "img") >= len(pairs)
    assert "red & <b>hot" in found.text["mistakes"], "as text, not as HTML"


def test_neighbours_have_the_most_similar_representations(finished: Path) -> None:
    opened = open_run(finished, device="cpu")
    groups = find_neighbours(opened)
    images, network = opened.data.value.test, opened.checkpoint.value.network
    batches = EvalBatches(images, opened.checkpoint.value.augment, Data(workers=0), batch_size=len(images))
    x = next(iter(batches)).x
    z = torch.nn.functional.normalize(network.forward_pool(network.forward_features(x)))
    assert [group.image.name for group in groups] == ["/".join(images.paths[i].parts[-2:]) for i in (0, 3, 7, 11)]
    for i, group in zip((0, 3, 7, 11), groups, strict=True):
        cosines = (z @ z[i]).scatter(0, torch.tensor([i]), -1.0).sort(descending=True)
        assert [one.cosine for one in group.nearest] == pytest.approx(cosines.values[:4].tolist(), abs=1e-5)
        assert group.image.cosine == pytest.approx(1.0, abs=1e-5)
    assert page(finished).count("neighbours", "img") == 20


def test_images_that_cannot_be_read_have_no_neighbours_and_no_maps(finished: Path, tmp_path: Path) -> None:
    opened = open_run(finished, device="cpu")
    splits = opened.data.value
    paths = [tmp_path / path.name for path in splits.test.paths]
    for path in paths:
        path.write_text("")
    unreadable = Splits(splits.train, Images(paths, splits.test.targets, splits.test.classes))
    broken = replace(opened, data=Section(unreadable))
    for make in (find_neighbours, attribution_maps):
        assert attempt(lambda make=make: make(broken)).problem == "no image of the sample could be read"


def test_in_a_large_test_set_images_with_similar_scores_are_searched() -> None:
    logits = torch.randn(1000, 30)
    logits[500] = logits[0] + 1e-3
    searched = _with_similar_scores(logits, torch.tensor([0, 333, 666, 999])).tolist()
    assert {0, 333, 500, 666, 999} <= set(searched) and len(searched) <= SEARCHED + SHOWN


def _root(run: Path) -> str:
    return next(line for line in (run / "recipe.toml").read_text().splitlines() if line.startswith("root")).split('"')[
        1
    ]


def test_data_that_are_open_are_used(copy: Path) -> None:
    splits = open_data(Data(root=_root(copy), workers=0))
    _change(copy, f'root = "{_root(copy)}"', 'root = "/nowhere"')
    write_report(copy, splits=Splits(splits.train, splits.test), device="cpu")
    assert MISSING not in page(copy).text["result"]


def test_saved_scores_are_used_without_opening_the_test_set(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covpool.report._predictions.compute_scores", None)
    write_report(copy)
    found = page(copy)
    assert MISSING not in found.text["result"] and found.count("mistakes", "img")


@pytest.mark.parametrize("what", ["missing", "damaged", "of other weights"])
def test_scores_that_do_not_belong_to_the_checkpoint_are_computed_again(copy: Path, finished: Path, what: str) -> None:
    if what == "missing":
        (copy / "scores.safetensors").unlink()
    elif what == "damaged":
        (copy / "scores.safetensors").write_bytes(b"half of it")
    else:
        spoil_scores(copy)
        shutil.copy(copy / "best.safetensors", copy / "last.safetensors")
    write_report(copy)
    if what == "of other weights":
        best = max(event["top1"] for event in read_lines(copy / "log.jsonl") if event["event"] == "epoch")
        assert f"top-1 accuracy {100 * best:.2f} %" in page(copy).text["result"]
    else:
        assert page(copy).text["result"] == page(finished).text["result"]


def test_the_result_is_the_epoch_chosen_on_the_validation_set(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "tree", train=8)
    recipe = tiny_recipe(root, data={"validation_fraction": 0.25}, train={"epochs": 2})
    result = train(recipe, tmp_path / "run")
    write_report(tmp_path / "run")
    found = page(tmp_path / "run").text
    assert f"best.safetensors (after epoch {result.epoch}, chosen on the validation set)" in found["result"]
    assert f"top-1 accuracy {100 * result.metrics['top1']:.2f} %" in found["result"]
    assert f"top-1 on the validation set {100 * result.best:.2f} % epoch {result.epoch};" in found["result"]
    assert "best epoch on the test set" not in found["result"] and "top-1, validation" in found["timings"]


def spoil_scores(run: Path) -> None:
    """Make every saved prediction wrong, but keep the marks of what the scores belong to."""
    with safe_open(run / "scores.safetensors", framework="pt") as file:
        marks = file.metadata()
    tensors = load_file(run / "scores.safetensors")
    logits = -torch.nn.functional.one_hot(tensors["targets"].clamp(min=0), 3).float()
    save_file({**tensors, "logits": logits}, run / "scores.safetensors", marks)


def test_without_data_the_saved_scores_are_shown(copy: Path) -> None:
    _change(copy, f'root = "{_root(copy)}"', 'root = "/nowhere"')
    write_report(copy)
    found = page(copy)
    assert MISSING not in found.text["result"] and MISSING in found.text["spectra"]
    assert "mistaken for" in found.text["mistakes"] and not found.count("mistakes", "img")


def test_without_data_and_scores_the_log_is_shown(copy: Path) -> None:
    _change(copy, f'root = "{_root(copy)}"', 'root = "/nowhere"')
    (copy / "scores.safetensors").unlink()
    write_report(copy)
    found = page(copy)
    for name in ("result", "mistakes", "spectra", "functions"):
        assert f"{MISSING}: there is no folder /nowhere" in (found.text[name])
    assert found.count("curves", "svg") == 5 and "top-1, last logged" in found.text["header"]


def test_an_interrupted_run(copy: Path) -> None:
    (copy / "best.safetensors").unlink()
    lines = (copy / "log.jsonl").read_text().splitlines(keepends=True)
    (copy / "log.jsonl").write_text("".join(lines[:7]) + lines[7][:20])
    write_report(copy)
    found = page(copy)
    assert "not finished: 1 of 2 epochs" in found.text["header"]
    assert "last.safetensors" in found.text["result"] and MISSING not in found.text["spectra"]


def test_a_run_before_its_first_epoch(copy: Path) -> None:
    for name in ("best.safetensors", "last.safetensors", "log.jsonl"):
        (copy / name).unlink()
    write_report(copy)
    found = page(copy)
    assert "Nothing has been logged yet" in found.text["curves"] and "No epoch is complete yet" in found.text["timings"]
    assert f"{MISSING}: there is no checkpoint" in found.text["result"]
    assert "optimizer.lr 0.05" in found.text["settings"]


def test_unknown_test_classes(copy: Path) -> None:
    splits = open_data(Data(root=_root(copy), workers=0))
    splits.test.targets[:] = [-1] * len(splits.test)
    write_report(copy, splits=splits)
    found = page(copy)
    assert (
        "no image has a known class" in found.text["result"] and "no image has a known class" in found.text["mistakes"]
    )
    assert found.count("spectra", "svg") == 2, "which needs no class"


def test_without_matplotlib(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    write_report(copy)
    found = page(copy)
    assert "pip install 'covpool[plots]'" in found.text["curves"]
    assert MISSING not in found.text["result"] and found.count("mistakes", "img")


def test_a_file_name_that_is_not_text(copy: Path) -> None:
    with (copy / "log.jsonl").open("a") as log:
        log.write('{"event": "broken", "step": 0, "part": "training", "path": "\\udce9t\\udce9.png"}\n')
    write_report(copy)
    assert "?t?.png" in page(copy).text["broken"]


@pytest.mark.parametrize("pool", ["avg", "deepo2p"])
def test_pools_of_other_kinds(copy: Path, pool: str) -> None:
    classes = covpool.io.read_checkpoint(copy / "best.safetensors").class_names
    network = covpool.attach("test_resnet", pool, 3, reduce_to=8)
    covpool.save(network, copy / "last.safetensors", class_names=classes, preprocessing={"size": 32, "resize": [32]})
    write_report(copy)
    found = page(copy)
    assert found.count("spectra", "svg") == 2
    assert ("computes no matrix" in found.text["spectra"]) == (pool == "avg")
    if pool == "avg":  # nothing is normalized, and no matrix lacks rank
        assert "functions" not in found.text and "#functions" not in found.pointers
        assert "cannot determine" not in found.text["spectra"]
    else:
        assert MISSING not in found.text["functions"]
    assert ("second moment" in found.text["spectra"]) == (pool == "deepo2p")


def test_mistakes_among_many_classes(finished: Path) -> None:
    """Against counting by hand; the images do not matter here."""
    rng = np.random.default_rng(0)
    true = np.arange(600) % 30
    said = np.where(rng.random(600) < 0.6, true, rng.integers(0, 30, 600))
    said[true == 7] = 8
    logits = torch.eye(30)[torch.from_numpy(said)] * 5
    names = tuple(f"class{c}" for c in range(30))
    path = Path(_root(finished), "test", "blue", "0.png")
    images = Images([path] * 600, true.tolist(), names)
    predictions = Predictions(logits, torch.from_numpy(true), names, images)
    found = find_mistakes(predictions, summarize_scores(logits, predictions.targets, names))
    assert found.classes == 30 and found.wrong == int((said != true).sum())
    shares = sorted((said[true == c] == c).mean() for c in range(30))
    assert [row.accuracy for row in found.rows] == pytest.approx(shares[:10]) and found.rows[0].name == "class7"
    assert len(found.columns) == 12 and found.columns[:10] == [row.name for row in found.rows]
    for row in found.rows:
        c = names.index(row.name)
        expected = [((true == c) & (said == names.index(column))).sum() for column in found.columns]
        assert [count for count, _ in row.cells] == expected and row.others == 20 - sum(expected)
    first = found.pairs[0]
    assert (first.true, first.predicted, first.count, first.images) == ("class7", "class8", 20, 20)
    probability = np.exp(5) / (np.exp(5) + 29)
    assert first.mistakes[0].probability == pytest.approx(probability) and len(first.mistakes) == 3
    assert first.mistakes[0].true_probability == pytest.approx((1 - probability) / 29)
    assert first.example is not None and first.mistakes[0].source.startswith("data:image/jpeg;base64,/9j/")


def test_spectra_of_constant_features() -> None:
    zero = Spectra(torch.zeros(3, 4, dtype=torch.float64), torch.zeros(3, 4, dtype=torch.float64), 9)
    assert [svg[:4] for svg in spectrum_plots(zero)] == ["<svg", "<svg"]
    with pytest.raises(ValueError, match="covariance is zero"):
        function_plots(zero)
    assert summarize_spectra(zero) == SpectraSummary(1.0, None, None)
    half = Spectra(torch.tensor([[8.0, 2.0, 0.0, 0.0]]).double(), None, 2)
    assert summarize_spectra(half) == SpectraSummary(0.5, 4.0, None)


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is not the folder of a run: it has no recipe\.toml"):
        write_report(tmp_path)


def test_steps_are_placed_between_epochs() -> None:
    steps = [{"step": s, "loss": float(s)} for s in (2, 4, 7, 10, 12)]
    epochs = [{"step": 4, "epoch": 1}, {"step": 10, "epoch": 2}]
    history = History(steps, epochs, [], None)
    assert history.of_steps("loss", "").x == pytest.approx([0.5, 1, 1.5, 2, 2 + 2 / 6])
    assert History(steps, [], [], None).of_steps("loss", "").x == [2, 4, 7, 10, 12], "steps, if no epoch is complete"


def test_a_learning_rate_that_ends_near_zero_keeps_a_readable_scale() -> None:
    steps = [{"step": s, "lr": 0.1 * (1 - s / 100) ** 4 + 1e-12} for s in range(101)]
    (curve,) = learning_curves(History(steps, [], [], None))
    curve = curve.replace("\N{MINUS SIGN}", "-")  # matplotlib 3.8 writes a hyphen
    assert [number in curve for number in ("0.001", ">1e-05<", ">1e-07<")] == [True, True, False]


def test_long_curves_are_thinned_to_means() -> None:
    series = Series("", [float(i) for i in range(10_000)], [float(i % 2) for i in range(10_000)]).thinned(100)
    assert len(series.x) == 100 and set(series.y) == {0.5}


def _change(run: Path, old: str, new: str) -> None:
    text = (run / "recipe.toml").read_text()
    assert old in text
    (run / "recipe.toml").write_text(text.replace(old, new))
