"""`covpool paper`."""

from cli.runner import refused, run


def test_the_list_names_every_table() -> None:
    shown = run("paper", "--list").stdout
    assert all(f"table {number} " in shown for number in range(1, 16))


def test_an_unknown_item_is_refused() -> None:
    assert "the paper has no table 16" in refused("paper", "table", "16")
