from pathlib import Path

import pytest

from covpool.recipe._parse import read_recipe, read_tables

LOW = """
about = "low"
seed = 3
[model]
backbone = "resnet18"
keep_last_stride = true
[pool]
name = "isqrt"
iterations = 3
[train]
epochs = 5
batch_size = 8
[schedule]
name = "step"
milestones = [2]
[[stages]]
epochs = 1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "low.toml").write_text(LOW)
    return tmp_path


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def test_settings_replace_those_of_the_base(folder: Path) -> None:
    high = write(folder, "high", 'base = "low.toml"\nabout = "high"\n[train]\nepochs = 7\n[pool]\nreduce_to = 16')
    recipe = read_recipe(high, ["train.batch_size=4"])
    assert (recipe.name, recipe.about, recipe.seed) == ("high", "high", 3)
    assert (recipe.train.epochs, recipe.train.batch_size) == (7, 4)
    assert recipe.pool.options == {"iterations": 3, "reduce_to": 16}
    assert recipe.model.keep_last_stride and len(recipe.stages) == 1


def test_a_table_that_names_something_replaces_the_table(folder: Path) -> None:
    high = write(
        folder,
        "high",
        'base = "low.toml"\nstages = []\nmodel.name = "resnet18_cov_8k"\npool.name = "bcnn"\nschedule.name = "cosine"',
    )
    tables = read_tables(high)
    assert tables["model"] == {"name": "resnet18_cov_8k"}
    assert tables["pool"] == {"name": "bcnn"} and tables["schedule"] == {"name": "cosine"}
    assert tables["stages"] == [] and tables["train"] == {"epochs": 5, "batch_size": 8}


def test_several_bases_and_bases_of_bases(folder: Path) -> None:
    (folder / "sub").mkdir()
    write(folder / "sub", "middle", 'base = "../low.toml"\nseed = 4\ntrain.epochs = 6')  # from the folder of the file
    write(folder, "other", "train.epochs = 9")
    high = write(folder, "high", 'base = ["sub/middle.toml", "other.toml"]')
    tables = read_tables(high)
    assert (tables["name"], tables["seed"], tables["train"]) == ("high", 4, {"epochs": 9, "batch_size": 8})
    assert "base" not in tables


def test_the_name_of_a_base_is_not_inherited(folder: Path) -> None:
    write(folder, "named", 'base = "low.toml"\nname = "something"')
    assert read_tables(write(folder, "high", 'base = "named.toml"'))["name"] == "high"


def test_two_recipes_joined_by_a_plus() -> None:
    recipe = read_recipe("finetune+aircraft")
    assert recipe.name == "finetune+aircraft" and recipe.data.name == "aircraft"
    assert recipe.augment.resize == (512, 512) and recipe.optimizer == read_recipe("finetune").optimizer


def test_a_plus_in_the_name_of_a_file(folder: Path) -> None:
    (folder / "a+b.toml").write_text(LOW)
    assert read_recipe(folder / "a+b.toml").name == "a+b"


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ('base = "high.toml"', ValueError, "cannot start from itself: high -> high"),
        ("base = 3", TypeError, "must be the name of a recipe, or a list of names; got 3"),
        ('base = ["low.toml", 3]', TypeError, "must be the name of a recipe"),
        ('base = "finetun"', ValueError, "did you mean 'finetune'"),
    ],
)
def test_invalid_bases(folder: Path, text: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as raised:
        read_tables(write(folder, "high", text))
    assert said in str(raised.value)
