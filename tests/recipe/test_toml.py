"""Recipes written as TOML."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covpool.recipe import Recipe, list_recipes, read_recipe, to_toml

TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(' "\\\n\x7f'), max_size=300)


@given(TEXTS | TEXTS.map(lambda text: (text + " ") * 5))
def test_any_text_is_read_back(text: str) -> None:
    assert tomllib.loads(to_toml(Recipe(about=text)))["about"] == text


@pytest.mark.parametrize("name", list_recipes())
def test_what_a_recipe_is_about_fits_a_terminal(name: str) -> None:
    about, _, _ = to_toml(read_recipe(name)).partition("\nsource")
    assert max(map(len, about.splitlines())) <= 80
