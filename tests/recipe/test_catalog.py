import subprocess
import sys
from pathlib import Path

import pytest

from covpool.recipe._catalog import find_recipe, list_recipes, list_sets, recipe_folder


def test_recipes_and_sets_by_name() -> None:
    assert find_recipe("finetune") == recipe_folder() / "finetune.toml"
    assert find_recipe("cub") == recipe_folder() / "sets" / "cub.toml"
    assert not set(list_recipes()) & set(list_sets())


def test_a_users_file_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("")
    assert find_recipe(mine) == mine
    assert find_recipe("mine.toml", tmp_path) == mine
    monkeypatch.chdir(tmp_path)
    assert find_recipe("mine.toml").resolve() == mine


def test_the_nearest_name_is_suggested() -> None:
    with pytest.raises(ValueError, match="did you mean 'aircraft'"):
        find_recipe("aircrafts")


def test_names_and_descriptions_do_not_import_torch() -> None:
    code = (
        "import sys; from covpool.recipe import json_schema, list_recipes, read_about; json_schema(); "
        "assert all(map(read_about, list_recipes())); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
