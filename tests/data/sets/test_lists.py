"""Lists are read line by line, and a damaged one is named with the place."""

from pathlib import Path

import pytest

from covpool.data.sets._lists import entries, pair, reading, rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "list.txt"


def test_rows_and_entries_leave_blanks_out(path: Path) -> None:
    path.write_text("\n 1 a b \n\n2 c\n")
    assert list(rows(path)) == ["1 a b", "2 c"]
    assert list(entries(path, pair, "two words")) == [("1", "a b"), ("2", "c")]


def test_a_line_that_cannot_be_read_is_named(path: Path) -> None:
    path.write_text("1\n\n" + 200 * "x")
    with pytest.raises(ValueError, match=r"list.txt, line 3: expected a number; got 'x{100}': mend it"):
        list(entries(path, int, "a number"))


def test_what_is_no_text_is_refused(path: Path) -> None:
    path.write_bytes(b"1 a\n\xff\xfe")
    with pytest.raises(
        ValueError, match=r"list.txt must hold text in UTF-8; reading it gave UnicodeDecodeError: .*0xff"
    ):
        list(rows(path))


def test_a_complaint_is_cut_to_its_first_sentence_and_a_missing_file_is_not_called_damaged(path: Path) -> None:
    with (
        pytest.raises(ValueError, match="must hold a name; reading it gave RuntimeError: Some text: mend it"),
        reading(path, "a name"),
    ):
        raise RuntimeError("Some text. And more\nand more")
    with pytest.raises(FileNotFoundError):
        list(rows(path))
