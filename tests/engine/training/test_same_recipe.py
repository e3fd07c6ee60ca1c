from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from covpool import CovpoolError
from covpool.engine.training._same_recipe import CHANGEABLE, NAMES, changed_settings, resumed_recipe
from covpool.recipe import flat_settings, read_recipe, to_toml
from covpool.recipe._schema import Recipe
from tiny import tiny_recipe


def edited(recipe: Recipe, folder: Path, old: str, new: str) -> Recipe:
    """The recipe after an edit of its file."""
    text = to_toml(recipe)
    assert old in text
    (folder / "recipe.toml").write_text(text.replace(old, new))
    return read_recipe(folder / "recipe.toml")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("lr = 0.05", "lr = 0.5", "optimizer.lr = 0.5, and was 0.05"),
        ("seed = 0", "seed = 1", "seed = 1, and was 0"),
        ("batch_size = 12", "batch_size = 24", "train.batch_size = 24, and was 12"),
        ('name = "isqrt"', 'name = "cov"', "pool.name = 'cov', and was 'isqrt'"),
        ("reduce_to = 8\n", "", "pool.reduce_to = None, and was 8"),
        ('name = "sgd"', 'name = "adamw"', "optimizer.name = 'adamw', and was 'sgd'"),
        ("size = 32", "size = 64", "augment.size = 64, and was 32"),
    ],
)
def test_an_edit_that_changes_the_result_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    kept = tiny_recipe(tmp_path)
    with pytest.raises(ValueError, match=f"not the one that the run was started with: {said}: undo the change"):
        resumed_recipe(kept, edited(kept, tmp_path, old, new))


def test_settings_that_do_not_affect_the_result_change(tmp_path: Path) -> None:
    kept = tiny_recipe(tmp_path)
    given = kept.changed(
        about="moved",
        data={"root": "/new", "workers": 3},
        train={"log_every": 7, "save_every": 5},
        devices={"nodes": 2},
    )
    assert resumed_recipe(kept, given) == given
    assert not changed_settings(kept, edited(kept, tmp_path, "seed = 0", "seed = 0 # a comment"))


def test_what_a_recipe_leaves_to_the_network_stays_as_it_was(tmp_path: Path) -> None:
    """A sweep resumes with the recipe as it was typed, before the network filled it in."""
    kept = tiny_recipe(tmp_path, data={"split_seed": 3})
    typed = kept.changed(augment={"size": None, "mean": None}, data={"split_seed": None})
    assert resumed_recipe(kept, typed) == kept


VALUES = (
    True, False, 1, 10, 0.5, "x", "bf16", "cosine", "keep", "pca", "paper", "skip", "contents", "ram", "val",
    "train+val", "center", "bicubic", "cov", "adamw", "resnet18_isqrt_2k", [40, 48], ["x"], [0.2, 0.4], [0.1, 0.2, 0.3],
    {"x": 1}, {"dampening": 0.5}, [{"epochs": 1}],
)  # fmt: skip

NEEDED = {"model.name": {"model": {"backbone": ""}}}


def with_another_value(recipe: Recipe, name: str, folder: Path) -> Recipe:
    """The recipe as it is read from its file, with the first of `VALUES` that is valid and new for a setting."""
    table, _, key = name.rpartition(".")
    before = dict(flat_settings(recipe))[name]
    for value in VALUES:
        with suppress(CovpoolError):
            changed = recipe.changed(**({table: {key: value}} if table else {name: value}))
            (folder / "recipe.toml").write_text(to_toml(changed))
            found = read_recipe(folder / "recipe.toml")
            if dict(flat_settings(found))[name] != before:
                return found
    raise AssertionError(f"`VALUES` has no other value of {name}")


@pytest.mark.parametrize("name", [name for name, _ in flat_settings(tiny_recipe(Path("images")))])
def test_no_setting_changes_unless_it_is_listed(tmp_path: Path, name: str) -> None:
    kept = tiny_recipe(tmp_path, **NEEDED.get(name, {}))
    given = with_another_value(kept, name, tmp_path)
    if any(fnmatchcase(name, pattern) for pattern in (*CHANGEABLE, *NAMES)):
        resumed_recipe(kept, given)
        return
    with pytest.raises(CovpoolError, match=f"started with: .*{name} = .*undo the change in recipe.toml"):
        resumed_recipe(kept, given)
