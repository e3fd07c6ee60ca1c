"""Messages in a terminal break between words; other files get them as they are."""

import io

import pytest
from rich.console import Console

from covpool.cli._output import say
from covpool.cli._wrap import wrapped


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_only_a_terminal_gets_line_breaks() -> None:
    text = "one two three four"
    assert wrapped(text, Terminal(), 9) == "one two\nthree\nfour"
    assert wrapped(text, io.StringIO(), 9) == text


def test_paths_names_and_own_line_breaks_are_kept() -> None:
    text = "in\n\n/a/very/long-path/to.png: class-name"
    assert wrapped(text, Terminal(), 12) == "in\n\n/a/very/long-path/to.png:\nclass-name"


@pytest.mark.parametrize("columns", [None, "40"])
def test_the_width_is_that_of_the_terminal(columns: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    else:
        monkeypatch.delenv("COLUMNS", raising=False)
    lines = wrapped("word " * 60, Terminal()).splitlines()
    assert len(lines) > 1 and max(map(len, lines)) <= int(columns or 300)


def test_a_command_says_things_in_whole_words() -> None:
    screen = Terminal()
    say(Console(file=screen, width=20), "average pooling and covariance pooling")
    assert screen.getvalue().splitlines() == ["average pooling and", "covariance pooling"]
