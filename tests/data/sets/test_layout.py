"""Lists are read line by line, and an error names the file and the line."""

from pathlib import Path

import pytest

from covpool.data.sets._layout import first_word, parse_lines, read_lines, reading


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "list.txt"


def test_empty_lines_and_surrounding_spaces_are_ignored(path: Path) -> None:
    path.write_text("\n 1 a b \n\n2 c\n")
    assert list(read_lines(path)) == ["1 a b", "2 c"]
    assert list(parse_lines(path, first_word, "two words")) == [("1", "a b"), ("2", "c")]


def test_an_invalid_line_is_named(path: Path) -> None:
    path.write_text("1\n\n" + 200 * "x")
    with pytest.raises(ValueError, match=r"list.txt, line 3: expected a number; got 'x{100}': repair it"):
        list(parse_lines(path, int, "a number"))


def test_binary_contents_are_rejected(path: Path) -> None:
    path.write_bytes(b"1 a\n\xff\xfe")
    with pytest.raises(
        ValueError, match=r"list.txt must contain text in UTF-8; reading it failed with UnicodeDecodeError: .*0xff"
    ):
        list(read_lines(path))


def test_only_the_first_sentence_of_an_error_is_shown_and_a_missing_file_is_not_called_damaged(path: Path) -> None:
    with (
        pytest.raises(ValueError, match="must contain a name; reading it failed with RuntimeError: Some text: repair"),
        reading(path, "a name"),
    ):
        raise RuntimeError("Some text. And more\nand more")
    with pytest.raises(FileNotFoundError):
        list(read_lines(path))
