from pathlib import Path

from cli.runner import refused, run
from covpool.engine.training._loop import train
from covpool.engine.training._run_folder import claim_run_folder
from tiny import make_tree, tiny_recipe


def test_report_of_a_run_without_checkpoint(tmp_path: Path) -> None:
    claim_run_folder(tmp_path / "run", tiny_recipe(make_tree(tmp_path / "tree", train=1, test=1)))
    result = run("report", tmp_path / "run", "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert "report.html" in result.output
    assert "there is no checkpoint" in (tmp_path / "run" / "report.html").read_text()


def test_a_folder_without_run_is_refused(tmp_path: Path) -> None:
    assert "is not the folder of a run: it has no recipe.toml" in refused("report", tmp_path)


def test_moved_data(tmp_path: Path) -> None:
    recipe = tiny_recipe(make_tree(tmp_path / "tree"))
    train(recipe, tmp_path / "run")
    (tmp_path / "tree").rename(tmp_path / "moved")
    page = tmp_path / "run" / "report.html"
    assert run("report", tmp_path / "run", "--device", "cpu").exit_code == 0
    assert "there is no folder" in page.read_text()
    assert run("report", tmp_path / "run", "--device", "cpu", "--root", tmp_path / "moved").exit_code == 0
    assert "there is no folder" not in page.read_text()
    assert "there is no folder" in refused("report", tmp_path / "run", "--root", tmp_path / "tree")


def test_two_runs_are_compared(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "tree")
    for seed in (0, 1):
        train(tiny_recipe(root, seed=seed), tmp_path / f"run{seed}")
    runs = [tmp_path / "run0", tmp_path / "run1"]
    result = run("report", *runs, "--device", "cpu", "--root", root)
    assert result.exit_code == 0, result.output
    assert "seed" in (tmp_path / "run1" / "comparison.html").read_text()
    assert "name one run, or two to compare; got 3" in refused("report", *runs, tmp_path)
