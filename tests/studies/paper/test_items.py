"""The tables and figures of the paper: every cell has a recipe that can be read, or none."""

import pytest

from covpool.recipe import read_recipe
from covpool.studies.paper import Item, find_item, list_items
from covpool.studies.paper._items import number_in
from covpool.studies.paper._trainings import item_trainings

ITEMS = {item.name: item for item in list_items()}


def test_all_numbered_items_are_there() -> None:
    tables = [f"table {number}" for number in range(1, 16)]
    assert list(ITEMS) == [*tables, "figure 6a", "figure 6b", "figure 6c", "figure 7", "figure 8"]
    with pytest.raises(ValueError, match=r"the paper has no table 81 \(did you mean 'table 8'"):
        find_item("table 81")


@pytest.mark.parametrize("name", ITEMS)
def test_every_training_has_its_recipe_and_data(name: str) -> None:
    item = ITEMS[name]
    assert all(len(row.paper) == len(item.columns) for row in item.rows)
    distinct = {(t.recipe, tuple(s for s in t.settings if "data.split" not in s)) for t in item_trainings(item)}
    needed = set()
    for recipe, settings in sorted(distinct):
        read = read_recipe(recipe, settings)
        needed.add(read.data.name)
        if read.init.weights:
            needed.add("imagenet")
    assert needed == set(item.data)


def test_numbers_of_the_paper() -> None:
    def paper(item: Item, label: str) -> list[float | None]:
        return [number_in(text) for row in item.rows if row.label == label for text in row.paper]

    assert paper(ITEMS["table 8"], "ResNet-50, iSQRT-COV 32K") == [88.1, 90.0, 92.8]
    assert paper(ITEMS["table 9"], "VGG-16, iSQRT-COV") == [87.2, 90.0, 92.5, 74.0, 81.4]
    assert paper(ITEMS["table 14"], "ResNet-50, 8k") == [22.33, 6.28, 32.32, 6.19, 1.49, 1085]
    assert paper(ITEMS["figure 6a"], "alpha 0.5") == [38.51]


def test_fusions_name_rows_of_their_table() -> None:
    fused = {row.label: row.fuses for item in ITEMS.values() for row in item.rows if row.fuses}
    assert {label: len(labels) for label, labels in fused.items()} == {"Fusion I": 2, "Fusion II": 2, "Fusion III": 4}
    assert {one for labels in fused.values() for one in labels} <= {row.label for row in ITEMS["table 11"].rows}


def test_what_the_paper_does_not_have_is_not_trained() -> None:
    names = {training.recipe for training in item_trainings(ITEMS["table 8"])}
    assert "finetune-vgg16_smso+cub" in names and "finetune-vgg16_smso+cars" not in names
    assert sum(t.recipe == "finetune-vgg16_bcnn+dtd" for t in item_trainings(ITEMS["table 10"])) == 10
