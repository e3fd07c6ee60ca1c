"""The trainings of an item, run on small data: order, resume, SVM over splits, the plot."""

from pathlib import Path

import pytest

import trees
from covpool import CovpoolError
from covpool.data.sets import open_data
from covpool.engine.evaluation import EvaluationProtocol, evaluate
from covpool.recipe import to_toml
from covpool.studies.paper import (
    Cell,
    Column,
    Item,
    Row,
    count_finished,
    evaluate_item,
    find_item,
    measured_file,
    plan_item,
    plot_item,
    read_cells,
    run_trainings,
)
from covpool.studies.paper._results import evaluate_finished, evaluate_fusions
from covpool.studies.paper._trainings import Training, item_trainings
from tiny import make_tree, tiny_recipe


def test_pretraining_comes_first_and_once() -> None:
    item = find_item("table 13")
    planned = plan_item(item, {"cub": "birds", "imagenet": "net"}, ["train.epochs=1"], Path("out"))
    names = [one.training.recipe for one in planned]
    assert names[:2] == ["imagenet-vgg16_bn_isqrt_32k", "finetune-vgg16_isqrt_32k+cub"] and len(set(names)) == 8
    first, second, third = planned[:3]
    assert second.recipe.init.weights == str(first.run / "best.safetensors")
    assert (first.recipe.data.root, second.recipe.data.root, third.recipe.data.root) == ("net", "birds", "")
    assert all(one.recipe.train.epochs == 1 for one in planned)
    without = plan_item(item, {}, ["init.weights=mine.safetensors"], Path("out"))
    assert len(without) == 6


def test_a_root_without_a_name_is_the_only_data_set_or_holds_all(tmp_path: Path) -> None:
    (one, *_) = plan_item(find_item("table 3"), {}, ["data.root=net"], Path("out"))
    assert one.recipe.data.root == "net"
    with pytest.raises(ValueError, match=r"folders named cub, aircraft, cars, imagenet; 'x' has none .*--data cub=FOL"):
        plan_item(find_item("table 13"), {}, ["data.root=x"], Path("out"))
    for name in ("cub", "imagenet"):
        (tmp_path / name).mkdir()
    planned = plan_item(find_item("table 13"), {"imagenet": "own"}, [f"data.root={tmp_path}"], Path("out"))
    roots = {one.recipe.data.name: one.recipe.data.root for one in planned}
    assert roots == {"cub": str(tmp_path / "cub"), "imagenet": "own", "aircraft": "", "cars": ""}
    with pytest.raises(ValueError, match=r"figure 6c needs no data: leave data\.root out"):
        plan_item(find_item("figure 6c"), {}, ["data.root=x"], Path("out"))


def test_an_item_on_small_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    root = trees.make_dtd(tmp_path / "textures")
    data = {"name": "dtd", "root": str(root), "train_on": "train+val", "workers": 0}
    recipe = tiny_recipe(root, data=data, train={"epochs": 1, "batch_size": 4})
    Path("tiny.toml").write_text(to_toml(recipe))
    columns = (Column(label="textures", figure="top1", classifier="svm", splits=2),)
    rows = (Row(label="a", paper=("74.0",), recipe="tiny.toml"),)
    item = Item(name="table 99", title="Small", columns=columns, rows=rows)
    out = Path("out")
    planned = plan_item(item, {}, [], out)
    assert [one.training for one in planned] == [
        Training("tiny.toml", ("data.split=1",)),
        Training("tiny.toml", ("data.split=2",)),
    ]
    assert list(run_trainings(planned)) == [] and count_finished(item, out) == (2, 2)
    assert read_cells(item, out)[0][0] == Cell("74.0", None, None, 0, 2)
    told: list[str] = []
    evaluate_item(item, out, device="cpu", on_evaluate=told.append)
    assert told == ["tiny.toml,data.split=1", "tiny.toml,data.split=2", "fusions"]
    assert not evaluate_finished(planned[0].training, columns[0], out, device="cpu")
    (svm,) = read_cells(item, out)[0]
    assert svm.value is not None and svm.deviation is not None and "±" in svm.text
    started: list[object] = []
    assert list(run_trainings(planned, on_run=lambda *given: started.append(given))) == [] and not started


def test_a_fusion_is_evaluated_once_its_trainings_are_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(to_toml(tiny_recipe(make_tree(tmp_path / "images"), train={"epochs": 1})))
    rows = tuple(Row(label=str(seed), paper=("",), recipe="tiny.toml", settings=(f"seed={seed}",)) for seed in (0, 1))
    rows += (Row(label="Fusion I", paper=("14.6",), fuses=("0", "1")),)
    item = Item(name="table 99", title="Small", columns=(Column(label="e", figure="top1", error=True),), rows=rows)
    out = Path("out")
    evaluate_fusions(item, out, device="cpu")
    assert read_cells(item, out)[2] == [Cell("14.6")]
    assert list(run_trainings(plan_item(item, {}, [], out))) == []
    evaluate_fusions(item, out, device="cpu")
    checkpoints = [f"out/{training.run(out).name}/last.safetensors" for training in item_trainings(item)]
    data = tiny_recipe(tmp_path / "images").data
    expected = evaluate([Path(file) for file in checkpoints], open_data(data), data, EvaluationProtocol(device="cpu"))
    (fused,) = read_cells(item, out)[2]
    assert fused.value == pytest.approx(100 * (1 - expected.as_json()["top1"]))


def test_a_result_that_cannot_be_written_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(to_toml(tiny_recipe(make_tree(tmp_path / "images"), train={"epochs": 1})))
    rows = (Row(label="a", paper=("",), recipe="tiny.toml"), Row(label="F", paper=("",), fuses=("a",)))
    item = Item(name="table 99", title="Small", columns=(Column(label="e", figure="top1", crops=10),), rows=rows)
    out = Path("out")
    assert list(run_trainings(plan_item(item, {}, [], out))) == []
    before = set(out.rglob("*.json"))
    (training,) = item_trainings(item)
    with monkeypatch.context() as broken:
        broken.setattr("os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            evaluate_finished(training, item.columns[0], out, device="cpu")
        with pytest.raises(KeyboardInterrupt):
            evaluate_fusions(item, out, device="cpu")
    assert set(out.rglob("*.json")) == before
    assert evaluate_finished(training, item.columns[0], out, device="cpu")


@pytest.mark.parametrize("text", ['{"rows": {"a', "[]", '{"item": "table 99"}'])
def test_a_damaged_result_is_named(tmp_path: Path, text: str) -> None:
    columns = (Column(label="ms", measured="ms"), Column(label="SVM", figure="top1", classifier="svm"))
    item = Item(
        name="table 99",
        title="Small",
        columns=columns,
        rows=(Row(label="a", paper=("", "")), Row(label="F", paper=("", ""), fuses=("a",))),
    )
    for path in (measured_file(item, tmp_path), tmp_path / "paper" / "table-99-F.json"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        with pytest.raises(CovpoolError, match=f"{path.name} is damaged: remove it, and run the command again"):
            read_cells(item, tmp_path)
        path.unlink()


def test_a_failed_training_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(to_toml(tiny_recipe(tmp_path / "nowhere")))
    rows = tuple(Row(label=str(seed), paper=("",), recipe="tiny.toml", settings=(f"seed={seed}",)) for seed in (0, 1))
    item = Item(name="table 99", title="Small", columns=(Column(label="top-1", figure="top1"),), rows=rows)
    failed = list(run_trainings(plan_item(item, {}, [], Path("out"))))
    assert len(failed) == 2 and "there is no folder" in failed[0][1]


def test_the_plot_has_both_numbers_and_the_baselines(tmp_path: Path) -> None:
    item = find_item("figure 6a")
    cells = [[Cell(row.paper[0], 39.0 + i / 10)] for i, row in enumerate(item.rows)]
    plot_item(item, cells, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5000
    with pytest.raises(ValueError, match="figure 6c has no number to plot yet"):
        plot_item(find_item("figure 6c"), read_cells(find_item("figure 6c"), tmp_path), tmp_path / "other.png")
