"""Line breaks between words, for text that is read in a terminal."""

import shutil
from textwrap import wrap
from typing import IO


def wrapped(text: str, file: IO[str], width: int | None = None) -> str:
    """Break lines between words if a file is a terminal, which would break them inside of words.

    Words longer than a line, such as paths, stay in one piece. Other files get the text as it is.

    Args:
        text: The text.
        file: Where it is printed.
        width: Characters of a line. The default is the width of the terminal.
    """
    if not file.isatty():
        return text
    columns = shutil.get_terminal_size().columns if width is None else width
    lines = (wrap(line, columns, break_long_words=False, break_on_hyphens=False) or [""] for line in text.split("\n"))
    return "\n".join(part for parts in lines for part in parts)
