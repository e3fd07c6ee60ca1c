"""A grid of trainings: the points, skipping finished trainings, and failures."""

import csv
import json
import statistics
from pathlib import Path

import pytest

from covpool.engine.training._log import Event
from covpool.engine.training._run_folder import claim_run_folder
from covpool.recipe import read_recipe, to_toml
from covpool.studies import _runs as module
from covpool.studies._runs import folder_name
from covpool.studies.sweep._axes import Axis, grid, read_axes
from covpool.studies.sweep._sweep import Outcome, PlannedTraining, plan, sweep
from covpool.studies.sweep._table import plot_sweep, tabulate, write_csv, write_lines
from tiny import make_tree, tiny_recipe


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipe")
    path = folder / "tiny.toml"
    path.write_text(to_toml(tiny_recipe(make_tree(folder / "data", train=8), train={"epochs": 1})))
    return path


class PowerCutError(BaseException):
    """Stands for a power cut: nothing catches it."""


class TestAxes:
    def test_values_of_a_list_are_tried_one_by_one(self) -> None:
        axes, fixed = read_axes(
            ["pool.name=[isqrt,avg]", "seed=[0,1,1]", "optimizer.lr=0.1", "schedule.milestones=[2, 3]", "name=[x"]
        )
        assert axes == [Axis("pool.name", ("isqrt", "avg")), Axis("seed", ("0", "1"))]
        assert fixed == ["optimizer.lr=0.1", "schedule.milestones=[2, 3]", "name=[x"]
        assert grid(axes) == [{"pool.name": p, "seed": s} for p in ("isqrt", "avg") for s in ("0", "1")]

    def test_settings_that_take_lists_need_lists_of_lists(self) -> None:
        axes, fixed = read_axes(
            ["schedule.milestones=[[2], [2, 3]]", "pool.dims=[[8, 4]]", "stages.0.freeze=[features]", "train.ema=[0.9]"]
        )
        assert [axis.values for axis in axes] == [("[2]", "[2, 3]"), ("[8, 4]",), ("0.9",)]
        assert fixed == ["stages.0.freeze=[features]"]

    def test_truth_values_and_mistakes(self) -> None:
        assert read_axes(["train.freeze_norms=[true, false]"])[0][0].values == ("true", "false")
        with pytest.raises(ValueError, match="at least one value"):
            read_axes(["seed=[]"])
        with pytest.raises(ValueError, match="twice"):
            read_axes(["seed=[0]", "seed=[1]"])


class TestPlan:
    def test_every_recipe_is_checked_before_the_first_training(self, recipe: Path, tmp_path: Path) -> None:
        planned = plan(recipe, ["pool.iterations=[3,5]", "seed=[0,1]", "train.epochs=2"], tmp_path)
        assert [(p.recipe.pool.options["iterations"], p.recipe.seed) for p in planned] == [
            (3, 0),
            (3, 1),
            (5, 0),
            (5, 1),
        ]
        assert all(p.recipe.train.epochs == 2 and p.recipe.devices.devices == "1" for p in planned)
        assert len({p.run for p in planned}) == 4 and all(p.run.parent == tmp_path for p in planned)
        with pytest.raises(ValueError, match=r"optimizer\.lr"):
            plan(recipe, ["optimizer.lr=[0.1,-1]"], tmp_path)
        with pytest.raises(ValueError, match="several values"):
            plan(recipe, ["optimizer.lr=0.1"], tmp_path)
        assert not list(tmp_path.iterdir())

    def test_folder_names_have_no_separators_and_are_unique(self) -> None:
        values = ("a/b.pth", "a_b.pth", "a%2Fb.pth", "[8, 4]", "[8,_4]")
        names = [folder_name([f"init.weights={value}", "seed=0"]) for value in values]
        assert names[0] == "init.weights=a%2Fb.pth,seed=0"
        assert len(set(names)) == len(values) and not any("/" in name for name in names)
        assert folder_name(["x=a,y=b", "y=c"]) != folder_name(["x=a", "y=b,y=c"])

    def test_another_data_set_in_the_same_folder_is_refused(self, recipe: Path, tmp_path: Path) -> None:
        root = read_recipe(recipe).data.root
        (planned,) = plan(recipe, ["seed=[0]"], tmp_path)
        claim_run_folder(planned.run, planned.recipe)
        assert plan(recipe, ["seed=[0]", f"data.root={root}/../{Path(root).name}"], tmp_path)  # the same one
        with pytest.raises(ValueError, match="other settings"):
            plan(recipe, ["seed=[0]", f"data.root={tmp_path}"], tmp_path)


class TestSweep:
    def test_finished_is_skipped_interrupted_is_resumed_failure_is_reported(
        self, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings = ["pool.reduce_to=[4,8]", "seed=[0,1]"]
        planned = plan(recipe, settings, tmp_path)
        train = module.train

        def break_one(recipe: object, run: Path, **options: object) -> object:
            if run == planned[1].run:
                raise RuntimeError("out of memory\nand more")
            return train(recipe, run, **options)  # type: ignore[arg-type]

        def cut(event: Event) -> None:
            if event["event"] == "epoch" and len(outcomes) == 2:
                raise PowerCutError

        outcomes: list[Outcome] = []
        monkeypatch.setattr(module, "train", break_one)
        with pytest.raises(PowerCutError):
            outcomes.extend(sweep(planned, on_event=cut))
        assert [o.status for o in outcomes] == ["finished", "failed"]
        assert outcomes[1].failed == "RuntimeError: out of memory" and not outcomes[1].metrics

        monkeypatch.setattr(module, "train", train)
        begun: list[int] = []

        def note(number: int, planned: PlannedTraining) -> None:
            begun.append(number)

        again = list(sweep(plan(recipe, settings, tmp_path), on_run=note))
        assert begun == [1, 2, 3] and all(o.status == "finished" for o in again)
        assert again == list(sweep(planned, on_run=note)) and begun == [1, 2, 3] and again[0] == outcomes[0]
        assert all(0 <= o.metrics["top1"] <= 1 for o in again)

        assert plan(recipe, [*settings, "train.log_every=5", "data.workers=0"], tmp_path)  # the result is the same
        with pytest.raises(ValueError, match="other settings"):
            plan(recipe, [*settings, "optimizer.lr=0.3"], tmp_path)


class TestTable:
    outcomes = (
        Outcome({"pool.name": "isqrt", "seed": "0"}, Path("a"), {"top1": 0.5, "top5": 1.0}, 2.0),
        Outcome({"pool.name": "isqrt", "seed": "1"}, Path("b"), {"top1": 0.7, "top5": 1.0}, 2.0),
        Outcome({"pool.name": "isqrt", "seed": "2"}, Path("c"), failed="RuntimeError: lost"),
        Outcome({"pool.name": "avg", "seed": "0"}, Path("d"), {"top1": 0.4}, 2.0),
        Outcome({"pool.name": "max", "seed": "0"}, Path("e"), failed="ValueError: no"),
    )

    def test_mean_and_deviation_over_seeds(self) -> None:
        rows = tabulate(self.outcomes)
        assert [row.label for row in rows] == ["pool.name=isqrt", "pool.name=avg", "pool.name=max"]
        assert rows[0].mean("top1") == pytest.approx(0.6)
        assert rows[0].deviation("top1") == pytest.approx(statistics.stdev([0.5, 0.7]))
        assert rows[1].deviation("top1") is None and rows[2].mean("top1") is None

    def test_the_ten_splits_of_dtd_share_a_row(self) -> None:
        outcomes = [Outcome({"data.split": str(s)}, Path(str(s)), {"top1": s / 10}) for s in range(1, 11)]
        (row,) = tabulate(outcomes)
        assert row.mean("top1") == pytest.approx(0.55) and row.label == "all"
        assert row.deviation("top1") == pytest.approx((sum((s / 10 - 0.55) ** 2 for s in range(1, 11)) / 9) ** 0.5)

    def test_files(self, tmp_path: Path) -> None:
        rows = tabulate(self.outcomes)
        write_csv(rows, tmp_path / "t.csv")
        with (tmp_path / "t.csv").open() as file:
            lines = list(csv.DictReader(file))
        assert lines[0]["pool.name"] == "isqrt" and float(lines[0]["top1_mean"]) == pytest.approx(0.6)
        assert (lines[0]["finished"], lines[0]["failed"], lines[2]["top1_mean"]) == ("2", "1", "")
        write_lines(self.outcomes, tmp_path / "t.jsonl", {"commit": "abc"})
        written = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
        assert written[2]["reason"] == "RuntimeError: lost" and written[0]["settings"]["seed"] == "0"
        assert written[0]["commit"] == "abc" and written[0]["top1"] == 0.5

    def test_plots_of_words_numbers_and_two_axes(self, tmp_path: Path) -> None:
        numbers = [
            Outcome({"pool.alpha": a, "pool.name": n, "seed": s}, Path("x"), {"top1": float(a) / 2 + 0.1 * int(s)})
            for a in ("0.3", "0.5")
            for n in ("mpn", "svpn")
            for s in ("0", "1")
        ]
        for number, outcomes in enumerate((self.outcomes, numbers)):
            path = tmp_path / f"{number}.png"
            plot_sweep(tabulate(outcomes), path, "title")
            assert path.read_bytes().startswith(b"\x89PNG")
        with pytest.raises(ValueError, match="nothing to plot"):
            plot_sweep(tabulate(self.outcomes[4:]), tmp_path / "none.png")
